"""A learner's parts of the model, and what a wrong one does to training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from minitransformer.plots.curves import smooth
from minitransformer.plots.saving import save

__all__ = ["compare_losses", "model_parts"]

YOURS, OTHERS, FRAME = "#3f8f6b", "#e4e4e0", "#55585c"
ROW, GAP, WIDTH = 0.24, 0.32, 3.3
COLUMNS = 3


def model_parts(places: Sequence[tuple[str, Sequence[tuple[str, bool]]]], path: Path | str) -> None:
    """Draw the places of the model as boxes; the parts that are a learner's own are filled.

    Parameters
    ----------
    places : sequence of (str, sequence of (str, bool))
        Each place with its parts, and whether a part is the learner's.
    path : Path or str
        The file to write.
    """
    save(parts_figure(places), path, dpi=160)


def parts_figure(places: Sequence[tuple[str, Sequence[tuple[str, bool]]]]) -> Figure:
    """Make the figure that `model_parts` writes."""
    columns: list[list[tuple[str, Sequence[tuple[str, bool]]]]] = [[] for _ in range(COLUMNS)]
    heights = [0.0] * COLUMNS
    share = sum(ROW * (len(row) + 1) + GAP for _, row in places) / COLUMNS
    for place in places:  # down a column, then down the next
        height = ROW * (len(place[1]) + 1) + GAP
        number = next((i for i in range(COLUMNS - 1) if not columns[i + 1] and heights[i] + height / 2 <= share), -1)
        columns[number].append(place)
        heights[number] += height
    across, down = COLUMNS * (WIDTH + 0.2) + 0.2, max(heights) + 0.5
    figure = Figure(figsize=(across, down))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, across), ylim=(down, 0))
    axes.axis("off")
    parts = [mine for _, row in places for _, mine in row]
    axes.text(0.2, 0.25, f"{sum(parts)} of {len(parts)} parts are yours (green)", va="center", size=11, weight="bold")
    for number, column in enumerate(columns):
        left, top = 0.2 + number * (WIDTH + 0.2), 0.5
        for title, row in column:
            height = ROW * (len(row) + 1) + 0.12
            axes.add_patch(
                FancyBboxPatch(
                    (left, top), WIDTH, height, boxstyle="round,pad=0,rounding_size=0.08", fill=False, ec=FRAME
                )
            )
            axes.text(left + 0.1, top + 0.6 * ROW, title, va="center", size=9, weight="bold", color=FRAME)
            for line, (name, mine) in enumerate(row, start=1):
                y = top + line * ROW + 0.04
                axes.add_patch(
                    FancyBboxPatch(
                        (left + 0.1, y), WIDTH - 0.2, ROW - 0.04, boxstyle="round,pad=0,rounding_size=0.05",
                        fc=YOURS if mine else OTHERS, ec="none",
                    )
                )  # fmt: skip
                colour = "white" if mine else "black"
                axes.text(left + 0.2, y + ROW / 2 - 0.02, name, va="center", size=8, color=colour)
            top += height + GAP - 0.12
    return figure


def compare_losses(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path | str) -> None:
    """Draw the losses of several runs over the steps, one beside the other.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        The lines of each run's record, by what the run is called.
    path : Path or str
        The file to write.
    """
    save(losses_figure(runs), path, dpi=160)


def losses_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Make the figure that `compare_losses` writes."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, lines), colour in zip(runs.items(), ("#b5402a", "#1f5a94", "#3f8f6b"), strict=False):
        points = [(line["step"], line["loss"]) for line in lines if "loss" in line]
        steps, loss = np.array(points, dtype=float).reshape(-1, 2).T
        axes.plot(steps, smooth(loss, 1), color=colour, linewidth=1.6, label=name)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(frameon=False, fontsize=8)
    return figure
