"""A picture of how training in several processes scales on different networks."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from minitransformer.apps.plots.colours import BLUE, FAINT, GREEN, ORANGE
from minitransformer.apps.plots.saving import save

RATES = {1: ORANGE, 10: GREEN, 100: BLUE}
LINES = ("-", "--")
WIDTH = 10.4


def network_curves(result: Mapping[str, Any], path: Path | str) -> None:
    """Draw the fraction of a step that several processes spend on computing, by the cost model.

    Parameters
    ----------
    result : mapping
        What ``bench.measure_processes`` returned.
    path : Path or str
        The file to write.

    Raises
    ------
    ValueError
        If nothing was measured.
    """
    save(network_figure(result), path, dpi=160)


def network_figure(result: Mapping[str, Any]) -> Figure:
    """Make the figure that ``network_curves`` writes, with the same parameters but the path: axes for each model."""
    models = result["projection"]
    if not models:
        raise ValueError("network_curves: found no step in one process, expected at least one")
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    grid = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    speeds = sorted({curve["speed"] for model in models.values() for curve in model["curves"]})
    for axes, (name, model) in zip(grid, models.items(), strict=True):
        for curve in model["curves"]:
            label = f"{curve['gigabits']} Gbit/s" + (
                f", {curve['speed']} times as fast" if curve["speed"] > speeds[0] else ""
            )
            axes.semilogx(
                model["processes"],
                curve["efficiency"],
                LINES[speeds.index(curve["speed"])],
                color=RATES[curve["gigabits"]],
                linewidth=1.4,
                label=label,
            )
        axes.set_title(f"{name}: {model['parameters'] / 1e6:.0f} million weights", loc="left", size=11)
        axes.set_xlabel("processes, each on its own machine")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(model["processes"][::2], [f"{n:,}" for n in model["processes"][::2]])
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylim(0, 1.02)
    grid[0].set_ylabel("share of a step spent computing")
    grid[-1].legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    computing = ", ".join(f"{model['seconds']:.2g} s ({name})" for name, model in models.items())
    heading = (
        f"A model of cost, not a measurement. A process computes for {computing} in each step of 3,072 tokens on "
        "either side (dashed: a processor 50 times as fast); 50 µs for each message; one share for each process."
    )
    figure.suptitle(textwrap.fill(heading, int(15 * WIDTH)), x=0.01, ha="left", size=9, color=FAINT)
    return figure
