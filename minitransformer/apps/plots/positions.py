"""Kinds of positions on sentences longer than in training: accuracy, and attention to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from minitransformer.apps.plots.colours import FAINT, RED, STYLES

LINES = (*STYLES, (RED, "v", (0, (1, 1.5))))
SPREAD = -0.004
"""The shift from one line to the next: equal ones stay visible, and none is above 100 %."""
ROWS = (("accuracy", "accuracy at the end"), ("weight", "weight on the answer"))


def positions_picture(result: Mapping[str, Any]) -> Figure:
    """Draw accuracy and attention over the length of the sentences, for each task.

    Parameters
    ----------
    result : mapping
        What ``paper.positions.measure_positions`` returned.
    """
    tasks = result["tasks"]
    figure = Figure(figsize=(4.4 * len(tasks), 6.4), layout="constrained")
    grid = figure.subplots(2, len(tasks), squeeze=False)
    for row, (what, words) in zip(grid, ROWS, strict=True):
        row[0].set_ylabel(words, size=9, color=FAINT)
        for axes, name in zip(row, tasks, strict=True):
            draw_positions(axes, result, name, what)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=5
    )
    return figure


def draw_positions(axes: Axes, result: Mapping[str, Any], name: str, what: str) -> None:
    """Draw one part of what ``positions_picture`` shows: the mean and the range of the seeds for each kind.

    ``what`` is "accuracy" or "weight".
    """
    task, lengths, n = result["tasks"][name], result["lengths"], result["sizes"]["n"]
    for i, ((kind, seeds), (colour, marker, line)) in enumerate(zip(task["kinds"].items(), LINES, strict=False)):
        values = np.array([one[what] for one in seeds]) + i * SPREAD
        if len(values) > 1:
            axes.fill_between(lengths, values.min(0), values.max(0), color=colour, alpha=0.15, lw=0)
        axes.plot(
            lengths, values.mean(axis=0), color=colour, marker=marker, linestyle=line, markersize=4, linewidth=1.5,
            label={"alibi": "ALiBi", "none": "no positions"}.get(kind, kind),
        )  # fmt: skip
    if what == "accuracy":
        axes.axhline(task["chance"], color="0.45", linewidth=1, linestyle=":", zorder=0)
        axes.annotate(
            "chance", (0.7, task["chance"]), (0, -3), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="center", va="top", size=8, color=FAINT,
        )  # fmt: skip
        axes.set_title(task["title"], loc="left", size=10)
    else:
        axes.set_xlabel(f"length of the sentence; trained on up to {n}", size=9)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length}" for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.04, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
