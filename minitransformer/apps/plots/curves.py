"""A training run: loss, exact match and learning rate over the steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from minitransformer.apps.plots.colours import BLUE, GREEN, ORANGE, PURPLE, RED
from minitransformer.apps.plots.fonts import face_for
from minitransformer.apps.plots.saving import save

LOSS, VALID, MATCH, TOKENS, BLEU, RATE = BLUE, GREEN, RED, ORANGE, PURPLE, "0.45"
MANY = 60  # from this many points on, the loss is also drawn smoothed
Series = tuple[NDArray[Any], NDArray[Any]]
"""Steps, and a value at each."""


def training_curves(metrics: Sequence[Mapping[str, Any]], path: Path | str, title: str = "") -> None:
    """Draw the learning curves of a training run.

    The loss is on top, on a logarithmic axis if it falls tenfold or more; exact match, token accuracy and BLEU in
    per cent below it, if there were evaluations; the learning rate in a strip at the bottom.

    Parameters
    ----------
    metrics : sequence of mapping
        The lines of a run's record. A line of training has "step" and "loss" and may have "learning_rate",
        "tokens_per_second" and "seconds" (since the start). A line of evaluation has "step" and
        "exact_match" (0 to 1) and may have "token_accuracy", "bleu" (0 to 100), "valid_loss" and "seconds". Other keys
        are not drawn.
        Where a step occurs twice, as after an interrupted run is resumed, the later line counts.
    path : Path or str
        The file to write.
    title : str, default: ""
        A heading.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a line has no step.
    """
    save(curves_figure(metrics, title), path)


def curves_figure(metrics: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Make the figure that `training_curves` writes, with the same parameters but the path.

    The axes are those of loss, accuracy and learning rate; each only if there is something on it.
    """
    for number, line in enumerate(metrics):
        if "step" not in line:
            raise ValueError(
                f"training_curves: line {number + 1} has the keys {sorted(line)}, expected 'step' too. "
                "Pass the lines of one run's metrics, each read as JSON."
            )
    series = {key: _series(metrics, key) for key in ("loss", "exact_match", "token_accuracy", "bleu", "learning_rate")}
    shown = {"loss": ("loss",), "exact_match": ("exact_match", "token_accuracy")}
    panels = [panel for panel, keys in shown.items() if any(len(series[key][0]) for key in keys)]
    if not panels:
        raise ValueError(
            f"training_curves: found lines: {len(metrics)}, none with 'loss' or 'exact_match'; expected some. "
            "Train for a few steps first, or check that these are the metrics of a run."
        )
    if len(series["learning_rate"][0]) > 1:
        panels.append("learning_rate")

    height = {"loss": 2.6, "exact_match": 1.9, "learning_rate": 0.55}
    ratios = [height[key] for key in panels]
    figure = Figure(figsize=(7, 0.8 + sum(ratios)), layout="constrained")
    grid = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=ratios)
    axes_of = dict(zip(panels, grid[:, 0], strict=True))
    for axes in axes_of.values():
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    if "loss" in axes_of:
        _draw_loss(axes_of["loss"], *series["loss"])
        _draw_valid_loss(axes_of["loss"], *_series(metrics, "valid_loss"))
    if "exact_match" in axes_of:
        _draw_accuracy(axes_of["exact_match"], *(series[key] for key in ("exact_match", "token_accuracy", "bleu")))
    if "learning_rate" in axes_of:
        _draw_rate(axes_of["learning_rate"], *series["learning_rate"])
    last = axes_of[panels[-1]]
    last.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1, steps=[1, 2, 2.5, 5, 10]))
    last.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    last.set_xlabel("step" + _note(metrics))
    if title:
        face = face_for([title])
        axes_of[panels[0]].set_title(face.readable(title), loc="left", size=13, pad=10, **face.options)
    return figure


def smooth(values: NDArray[Any], reach: int) -> NDArray[Any]:
    """Average each value with `reach` neighbours on either side; values that are not finite are left out.

    There are fewer neighbours near the start, where the window stays centred so that a steep fall is not cut off. Near
    the end the window is one-sided, so that the curve stays smooth. An average is NaN where no neighbour is finite.
    """
    place = np.arange(len(values))
    reaches = np.minimum(reach, place)
    low, high = place - reaches, np.minimum(place + reaches + 1, len(values))
    finite = np.isfinite(values)
    # Sums over windows as differences of running sums.
    total = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(finite)])
    with np.errstate(invalid="ignore"):
        return (total[high] - total[low]) / (count[high] - count[low])


def _series(metrics: Sequence[Mapping[str, Any]], key: str) -> Series:
    """Pick steps and values of one key, in order of steps."""
    found = {int(line["step"]): float(line[key]) for line in metrics if key in line}
    steps = sorted(found)
    return np.array(steps, dtype=int), np.array([found[step] for step in steps], dtype=float)


def _draw_loss(axes: Axes, steps: NDArray[Any], loss: NDArray[Any]) -> None:
    if len(steps) < MANY:
        axes.plot(steps, loss, color=LOSS, marker="o", markersize=3, linewidth=1.4)
    else:
        axes.plot(steps, loss, color=LOSS, alpha=0.3, linewidth=0.7, label="as measured")
        axes.plot(steps, smooth(loss, len(loss) // 50), color=LOSS, linewidth=1.6, label="smoothed")
        axes.legend(frameon=False, fontsize=8)
    axes.set_ylabel("loss")
    drawn = loss[np.isfinite(loss) & (loss > 0)]
    if len(drawn) and drawn.max() >= 10 * drawn.min():
        # Between the powers of ten labels fit only when the powers are few.
        between = (1.0, 2.0, 5.0) if drawn.max() < 1000 * drawn.min() else (1.0,)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=between))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_valid_loss(axes: Axes, steps: NDArray[Any], loss: NDArray[Any]) -> None:
    """Add the loss on held-out pairs; without label smoothing its level differs from that of the training loss."""
    if len(steps):
        marker = "o" if len(steps) < MANY else ""
        label = "held out, without label smoothing"
        axes.plot(steps, loss, "--", color=VALID, marker=marker, markersize=3, linewidth=1.2, label=label)
        axes.legend(frameon=False, fontsize=8)


def _draw_accuracy(axes: Axes, match: Series, tokens: Series, bleu: Series) -> None:
    curves = (
        (bleu, 1, BLEU, "-.", "BLEU, last {:.1f}"),
        (tokens, 100, TOKENS, "--", "token accuracy, last {:.1f} %"),
        (match, 100, MATCH, "-", "exact match, last {:.1f} %"),
    )
    for (steps, share), factor, colour, style, name in curves:
        if len(steps):
            marker = "o" if len(steps) < MANY else ""
            label = name.format(factor * share[-1])
            axes.plot(
                steps, factor * share, style, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=label
            )
    axes.set_ylabel("correct, %; BLEU" if len(bleu[0]) else "correct, %")
    axes.set_ylim(-4, 104)
    axes.set_yticks([0, 25, 50, 75, 100])
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8)


def _draw_rate(axes: Axes, steps: NDArray[Any], rate: NDArray[Any]) -> None:
    axes.plot(steps, rate, color=RATE, linewidth=1)
    axes.set_ylabel("learning\nrate", size=7, color=RATE)
    top = float(np.nanmax(rate))
    axes.set_ylim(0, 1.15 * top if top > 0 else 1)
    axes.set_yticks([0, top] if top > 0 else [0])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
    axes.tick_params(axis="y", labelsize=7, labelcolor=RATE)


def _note(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the run's duration and speed as text, as far as the lines contain them."""
    seconds = max((float(line["seconds"]) for line in metrics if "seconds" in line), default=None)
    speeds = [float(line["tokens_per_second"]) for line in metrics if "tokens_per_second" in line]
    parts = [] if seconds is None else [f"{duration(seconds)} in all"]
    if speeds:
        parts.append(f"{np.median(speeds):,.0f} tokens per second")
    return f"   ({', '.join(parts)})" if parts else ""


def duration(seconds: float) -> str:
    """Write a time in seconds as a person would: "4.2 s", "48 s", "2 min 05 s" or "1 h 03 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
