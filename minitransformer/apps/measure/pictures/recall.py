"""Accuracy by distance and length: kinds of layer on recall, and kinds of positions on longer sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from minitransformer.apps.measure.pictures.axes import draw_seeds, dress, name_sizes, shares
from minitransformer.apps.plots.colours import FAINT, RED, STYLES

WINDOW = 8
"""The number of positions over which accuracy by position is averaged."""
SPREAD = (0, -0.012, -0.024, -0.036)
"""The shifts of the lines of the kinds: equal ones stay visible, and none is above 100 %."""
SHIFT = -0.004
"""The same from one line of positions to the next."""
LINES = (*STYLES, (RED, "v", (0, (1, 1.5))))


def recall_picture(result: Mapping[str, Any]) -> Figure:
    """Draw accuracy over the distance: the mean and the range of the seeds for each kind of layer, and its reach.

    Parameters
    ----------
    result : mapping
        What ``measure.recall.measure_recall`` returned.
    """
    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for (name, kind), style, shift in zip(result["kinds"].items(), STYLES, SPREAD, strict=True):
        distances = [point["distance"] for point in kind["points"]]
        draw_seeds(axes, distances, np.transpose([point["accuracy"] for point in kind["points"]]) + shift, style, name)
        if kind["reach"] is not None:
            colour, _, line = style
            axes.axvline(kind["reach"], color=colour, linestyle=line, linewidth=1, zorder=0)
            axes.annotate(
                f"reach {kind['reach']} ", (kind["reach"], 0.42), rotation=90, size=8, color=colour, ha="right"
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(labelled := [d for d in result["distances"] if d & (d - 1) == 0], [f"{d}" for d in labelled])
    axes.set_xticks([d for d in result["distances"] if d not in labelled], minor=True)
    axes.xaxis.set_minor_formatter(NullFormatter())
    _dress(axes, "recall of the symbol L positions back", "L", result["chance"])
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(0, 0.45))
    return figure


def extrapolation_picture(result: Mapping[str, Any]) -> Figure:
    """Draw accuracy over the position in sentences longer than in training, for each kind of positions.

    There is a line for each kind of layer: the mean of all seeds, in windows of a few positions.

    Parameters
    ----------
    result : mapping
        What ``measure.recall.measure_extrapolation`` returned.
    """
    figure = Figure(figsize=(8.8, 4.4), layout="constrained")
    distance, n = result["distance"], result["sizes"]["n"]
    for axes, positions in zip(figure.subplots(1, 2), ("sinusoidal", "learned"), strict=True):
        for (name, kind), style, shift in zip(result["kinds"].items(), STYLES, SPREAD, strict=True):
            accuracy = np.mean(kind[positions]["accuracy"], axis=0)
            # windows end where training did, so that none is half inside
            ends = np.arange((n - distance) % WINDOW or WINDOW, len(accuracy) + 1, WINDOW)
            windows = [accuracy[max(end - WINDOW, 0) : end].mean() for end in ends]
            draw_seeds(axes, ends + distance - WINDOW / 2, np.array([windows]) + shift, style, name)
        axes.axvspan(0, n, color="0.93", zorder=0)
        axes.set_xlim(0, n * result["times"])
        axes.set_xticks([n * i for i in range(result["times"] + 1)])
        title = f"{positions} positions; trained on length {n} (grey), L {distance}"
        _dress(axes, title, "position", result["chance"])
    axes.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.65))
    return figure


def _dress(axes: Axes, title: str, xlabel: str, chance: float) -> None:
    dress(axes, title, xlabel, "accuracy on fresh sentences")
    shares(axes, chance, 0, 1.06)
    axes.annotate(" chance", (0, chance), xycoords=("axes fraction", "data"), va="bottom", size=8, color=FAINT)


def positions_picture(result: Mapping[str, Any]) -> Figure:
    """Draw accuracy and attention over the length of the sentences, for each task.

    There is a line for each kind of positions: the mean and the range of the seeds.

    Parameters
    ----------
    result : mapping
        What ``measure.positions.measure_positions`` returned.
    """
    tasks, lengths = result["tasks"], result["lengths"]
    figure = Figure(figsize=(4.4 * len(tasks), 6.4), layout="constrained")
    grid = figure.subplots(2, len(tasks), squeeze=False)
    for (above, below), task in zip(grid.T, tasks.values(), strict=True):
        dress(above, task["title"])
        dress(below, xlabel=f"length of the sentence; trained on up to {result['sizes']['n']}")
        for axes, what in ((above, "accuracy"), (below, "weight")):
            for i, ((kind, seeds), style) in enumerate(zip(task["kinds"].items(), LINES, strict=False)):
                label = {"alibi": "ALiBi", "none": "no positions"}.get(kind, kind)
                draw_seeds(axes, lengths, np.array([one[what] for one in seeds]) + i * SHIFT, style, label)
            shares(axes, task["chance"] if axes is above else None, -0.04, 1.03)
            axes.set_xscale("log", base=2)
            name_sizes(axes, lengths)
        above.annotate(
            "chance", (0.7, task["chance"]), (0, -3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="center", va="top", size=8, color=FAINT,
        )  # fmt: skip
    for axes, words in zip(grid[:, 0], ("accuracy at the end", "weight on the answer"), strict=True):
        axes.set_ylabel(words, size=9, color=FAINT)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=5
    )
    return figure
