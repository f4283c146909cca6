"""What the axes of all pictures share: headings, frames, shares in percent, ranges of seeds and named sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from numpy.typing import NDArray

from minitransformer.apps.plots.colours import FAINT


def dress(axes: Axes, title: str = "", xlabel: str = "", ylabel: str = "", grid: Any = None) -> None:
    """Give axes a title and labels, where these are not empty, a frame on two sides, and perhaps a pale grid.

    ``grid`` is "both", "x", "y" or None.
    """
    axes.set_title(title, loc="left", size=10)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel, size=9, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color="0.92", linewidth=0.8)


def head(figure: Figure, words: str) -> None:
    """Write what a picture shows above it."""
    figure.suptitle(words, x=0.01, ha="left", size=9, color=FAINT)


def name_sizes(axes: Axes, sizes: Iterable[float]) -> None:
    """Name these places of a logarithmic axis, and no others."""
    ticks = sorted({*sizes})
    axes.xaxis.set_major_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def room_above(axes: Axes, share: float) -> None:
    """Extend a logarithmic axis by a share of its length, for a legend."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** share)


def shares(axes: Axes, chance: float | None, low: float, high: float) -> None:
    """Show shares in percent, and the share that guessing gets."""
    if chance is not None:
        axes.axhline(chance, color="0.45", linewidth=1, linestyle=":", zorder=0)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def draw_seeds(axes: Axes, x: Sequence[float], values: NDArray[Any], style: Any, label: str) -> None:
    """Draw the mean over the seeds, and from two seeds on their range, in one of ``STYLES``; values (seeds, places)."""
    colour, marker, line = style
    if len(values) > 1:
        axes.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.15, lw=0)
    axes.plot(
        x, values.mean(0), color=colour, marker=marker, linestyle=line, markersize=4.5, linewidth=1.5, label=label
    )
