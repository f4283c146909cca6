"""A learner's parts of the model, and the effect of a wrong one on training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from minitransformer.apps.plots.colours import BLUE, GREEN, RED
from minitransformer.apps.plots.curves import smooth
from minitransformer.apps.plots.heatmap import plain_figure
from minitransformer.apps.plots.saving import save

FRAME = "#55585c"
COLOURS = {"yours": (GREEN, "white"), "engine": ("#e4e4e0", "black"), "wrong": (RED, "white")}
"""The colour of a part and of its name, by its owner."""
ROW, GAP, WIDTH, SPACE = 0.24, 0.16, 3.3, 0.5
"""The heights of a row and of the gap between two boxes; the widths of a box and of the space between two stacks."""
LEFT, TOP = 0.35, 1.0


class Row(Protocol):
    """A part, or a remark on parts of another box."""

    @property
    def text(self) -> str:
        """The words in the row."""

    @property
    def owner(self) -> str:
        """Whose part it is: a key of `COLOURS`, or an empty string."""

    @property
    def note(self) -> str:
        """A remark, or an empty string."""


class Box(Protocol):
    """A sub-layer with its parts."""

    @property
    def title(self) -> str:
        """The name of the sub-layer."""

    @property
    def rows(self) -> Sequence[Row]:
        """Its parts, from top to bottom."""

    @property
    def layered(self) -> bool:
        """Whether the sub-layer stands in every layer."""


def model_parts(stacks: Mapping[str, Sequence[Box]], path: Path | str) -> None:
    """Draw the model as stacks of sub-layers; the parts that are a learner's own are filled.

    Parameters
    ----------
    stacks : mapping of str to sequence of Box
        The encoder if there is one, the decoder, training and decoding; each box has a ``title``, ``rows`` and whether
        it is ``layered``. A row has a ``text``, an ``owner`` (yours, engine, wrong, or nothing) and a ``note``.
    path : Path or str
        The file to write.
    """
    save(parts_figure(stacks), path)


def parts_figure(stacks: Mapping[str, Sequence[Box]]) -> Figure:
    """Make the figure that `model_parts` writes."""
    *columns, training, decoding = ([name] for name in stacks)
    columns.append(training + decoding)
    across = LEFT + len(columns) * (WIDTH + SPACE)
    down = TOP + 0.2 + max(sum(_height(stacks[name]) for name in column) for column in columns)
    figure = plain_figure(across, down)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, across), ylim=(down, 0))
    axes.axis("off")
    owners = [row.owner for boxes in stacks.values() for box in boxes for row in box.rows if row.owner]
    words = f"{owners.count('yours')} of {len(owners)} parts are yours (green)"
    words += f", {owners.count('wrong')} wrong (red)" if "wrong" in owners else ""
    axes.text(LEFT, 0.25, words, va="center", size=11, weight="bold")
    others = "The others (grey) are the engine's. Numbers are milliseconds of a training step."
    axes.text(LEFT, 0.5, others, va="center", size=8, color=FRAME)
    places: dict[tuple[str, str], float] = {}
    for number, column in enumerate(columns):
        left, top = LEFT + number * (WIDTH + SPACE), TOP
        for name in column:
            _draw_stack(axes, name, stacks[name], left, top, places)
            top += _height(stacks[name])
    if "encoder" in stacks:
        _draw_memory(axes, places["encoder", ""], places["decoder", "cross-attention"])
    return figure


def _height(boxes: Sequence[Box]) -> float:
    return sum(ROW * (len(box.rows) + 1) + 0.08 + GAP for box in boxes) + 0.5


def _draw_stack(
    axes: Axes, name: str, boxes: Sequence[Box], left: float, top: float, places: dict[tuple[str, str], float]
) -> None:
    """Draw one stack, and leave the height of each box's title, and that of the end."""
    axes.text(left, top - 0.2, name.upper(), va="center", size=10, weight="bold", color=FRAME)
    layers = []
    for number, box in enumerate(boxes):
        height = ROW * (len(box.rows) + 1) + 0.08
        if number and name in ("encoder", "decoder"):
            _arrow(axes, [(left + WIDTH / 2, top - GAP), (left + WIDTH / 2, top)])
        places[name, box.title] = top + 0.6 * ROW
        layers += [top, top + height] if box.layered else []
        _draw_box(axes, box, left, top, height)
        top += height + GAP
    places[name, ""] = top - GAP
    if layers:
        first, last, x = min(layers), max(layers), left - 0.1
        axes.plot([x + 0.05, x, x, x + 0.05], [first, first, last, last], color=FRAME, linewidth=1)
        axes.text(x - 0.1, (first + last) / 2, "N layers", rotation=90, va="center", ha="center", size=8, color=FRAME)


def _draw_box(axes: Axes, box: Box, left: float, top: float, height: float) -> None:
    frame = FancyBboxPatch((left, top), WIDTH, height, boxstyle="round,pad=0,rounding_size=0.08", fill=False, ec=FRAME)
    axes.add_patch(frame)
    axes.text(left + 0.1, top + 0.6 * ROW, box.title, va="center", size=9, weight="bold", color=FRAME)
    for line, row in enumerate(box.rows, start=1):
        y, colour = top + line * ROW + 0.04, "black"
        if row.owner:
            fill, colour = COLOURS[row.owner]
            shape = "round,pad=0,rounding_size=0.05"
            axes.add_patch(FancyBboxPatch((left + 0.1, y), WIDTH - 0.2, ROW - 0.04, boxstyle=shape, fc=fill, ec="none"))
            right = left + WIDTH - 0.2
            axes.text(right, y + ROW / 2 - 0.02, row.note, va="center", ha="right", size=8, color=colour)
        axes.text(left + 0.2, y + ROW / 2 - 0.02, row.text.strip(), va="center", size=8, color=colour)


def _draw_memory(axes: Axes, end: float, cross: float) -> None:
    """Draw the way from the end of the encoder to cross-attention."""
    middle, right = LEFT + WIDTH / 2, LEFT + WIDTH + 0.17
    _arrow(
        axes, [(middle, end), (middle, end + 0.25), (right, end + 0.25), (right, cross), (LEFT + WIDTH + SPACE, cross)]
    )
    axes.text(middle + 0.1, end + 0.37, "keys and values", va="center", size=8, color=FRAME)


def _arrow(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Draw a line through points, with a head at the last one."""
    axes.plot(*zip(*points, strict=True), color=FRAME, linewidth=1)
    axes.annotate("", points[-1], points[-2], arrowprops={"arrowstyle": "-|>", "color": FRAME, "lw": 1})


def compare_losses(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path | str) -> None:
    """Draw the losses of several runs over the steps, one beside the other.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        The lines of each run's record, by the run's name.
    path : Path or str
        The file to write.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, lines), colour in zip(runs.items(), (RED, BLUE, GREEN), strict=False):
        points = [(line["step"], line["loss"]) for line in lines if "loss" in line]
        steps, loss = np.array(points, dtype=float).reshape(-1, 2).T
        axes.plot(steps, smooth(loss, 1), color=colour, linewidth=1.6, label=name)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)
