"""The changes since the paper: each one's ratio to the base, with its confidence interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, NullLocator

from minitransformer.apps.measure.pictures.axes import dress
from minitransformer.apps.plots.colours import BLUE, FAINT, RED

COLOURS = {-1: BLUE, 0: FAINT, 1: RED}
"""The colours of rows that are better than the base, cannot be told from it, or are worse."""
MARKERS = {-1: "o", 0: "D", 1: "s"}
MARGIN = 0.15
"""The axis goes beyond all seeds' ratios by this share of their range; longer intervals are cut there."""


def changes_picture(result: Mapping[str, Any]) -> Figure:
    """Draw the ratios to the base, with their intervals: a line for each other row, the first on top.

    Parameters
    ----------
    result : mapping
        What ``measure.changes.measure_changes`` returned.
    """
    figure = Figure(figsize=(7.6, 0.8 + 0.32 * len(result["rows"])), layout="constrained")
    axes = figure.add_subplot()
    rows = {name: row for name, row in result["rows"].items() if row["changes"]}
    every = [1.0, *(value for row in rows.values() for value in row["ratio"]["values"])]
    margin = (max(every) / min(every)) ** MARGIN
    left, right = min(every) / margin, max(every) * margin
    for y, row in enumerate(rows.values()):
        values, mean, low, high, p = (row["ratio"][name] for name in ("values", "mean", "low", "high", "p"))
        side = 0 if p >= 0.05 else 1 if mean > 1 else -1
        colour = COLOURS[side]
        axes.plot([low, high], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt", alpha=0.55, zorder=2)
        axes.plot(values, [y] * len(values), "|", color=colour, markersize=8, markeredgewidth=1.2, zorder=3)
        axes.plot(mean, y, MARKERS[side], color=colour, markersize=6, zorder=4)
        if low < left:
            axes.plot(left, y, "<", color=colour, markersize=6, clip_on=False, zorder=4)
        if high > right:
            axes.plot(right, y, ">", color=colour, markersize=6, clip_on=False, zorder=4)
    axes.axvline(1, color="0.2", linewidth=1, zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if right > 5 * left else AutoLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), rows)
    base = sum(result["rows"]["base"]["bits"]) / len(result["seeds"])
    title = (
        f"{result['title']}: {len(result['seeds'])} seeds (ticks), mean and {result['level']:.0%} confidence interval"
    )
    xlabel = f"{result['measure']}, as a multiple of the base ({base:.3f});  left is better,  grey is open"
    dress(axes, title, xlabel, grid="x")
    axes.tick_params(axis="y", length=0, pad=8)
    axes.spines["left"].set_visible(False)
    return figure
