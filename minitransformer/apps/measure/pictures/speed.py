"""Pictures of speed: programs side by side, where the time goes, and how time and memory grow."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from minitransformer.apps.measure.pictures.axes import dress, head, name_sizes, room_above
from minitransformer.apps.measure.tables import duration
from minitransformer.apps.plots.colours import BLUE, FAINT, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW

PROGRAMS = {"ours": BLUE, "eager": ORANGE, "compiled": PURPLE}
PARTS = (BLUE, SKY, GREEN, YELLOW, ORANGE, RED, PURPLE, GREY)
LIGHT = {YELLOW, SKY, ORANGE, GREY, PURPLE}
CURVES = ((BLUE, "o", "-"), (ORANGE, "s", "-"), (GREEN, "^", "-"))
WIDE = 0.8
"""The width of a group of bars; the next group is at a distance of 1."""


def speed_bars(result: Mapping[str, Any]) -> Figure:
    """Draw programs side by side, and where our time goes.

    On the left the time of a step and on the right the peak memory, relative to PyTorch eager, or to us where that
    was not measured; in the middle the parts of our step.

    Parameters
    ----------
    result : mapping
        What ``measure.speed.measure_speed`` returned.

    Raises
    ------
    ValueError
        If nothing was measured.
    """
    configurations = {
        name: configuration
        for name, configuration in result["configurations"].items()
        if any("median" in program for program in configuration["programs"].values())
    }
    if not configurations:
        raise ValueError("speed_bars: found no configuration with a program that finished, expected at least one")
    groups = len(configurations)
    figure = Figure(figsize=(7.2 + 1.75 * max(groups, 2), 4.6), layout="constrained")
    time, parts, memory = figure.subplots(
        1, 3, width_ratios=[1.2 + 1.2 * groups, 2.0 + 0.9 * groups, 1.2 + 1.2 * groups]
    )
    reference = "eager" if all("median" in _program(c, "eager") for c in configurations.values()) else "ours"
    label = {"eager": "PyTorch eager", "ours": "minitransformer"}[reference]
    _draw_bars(time, configurations, reference, _relative_time, lambda program: duration(program["median"]))
    dress(time, f"time of a step, {label} = 1", "", "lower is better")
    _draw_bars(memory, configurations, reference, _relative_memory, lambda program: _bytes(program["peak"]))
    dress(memory, f"peak memory, {label} = 1")
    _draw_parts(parts, configurations)
    handles, labels = time.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
    m = result["machine"]
    software = f"NumPy {m['numpy']} with {m['blas']}; {m['date'][:10]}"
    head(figure, f"One training step on {m['processor']}, {m['cores']} cores; {software}")
    return figure


def _program(configuration: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = configuration["programs"].get(name, {})
    return found


def _relative_time(program: Mapping[str, Any], reference: Mapping[str, Any]) -> float | None:
    """Compare through our times: those ratios are from turns in the same minute."""
    if "times_ours" in program and "times_ours" in reference:
        return float(program["times_ours"]["median"] / reference["times_ours"]["median"])
    return float(program["median"] / reference["median"]) if "median" in reference else None


def _relative_memory(program: Mapping[str, Any], reference: Mapping[str, Any]) -> float | None:
    return float(program["peak"] / reference["peak"]) if program.get("peak") and reference.get("peak") else None


def _draw_bars(axes: Axes, configurations: Mapping[str, Any], reference: str, relative: Any, words: Any) -> None:
    names = [name for name in PROGRAMS if any("median" in _program(c, name) for c in configurations.values())]
    width = WIDE / max(len(names), 2)
    heights = [1.0]
    for i, name in enumerate(names):
        label = next(p["label"] for c in configurations.values() if (p := _program(c, name)))
        for group, configuration in enumerate(configurations.values()):
            program = _program(configuration, name)
            height = relative(program, _program(configuration, reference)) if "median" in program else None
            if height is None:
                continue
            place = group + (i - (len(names) - 1) / 2) * width
            axes.bar(place, height, 0.92 * width, color=PROGRAMS[name], label=label)
            axes.annotate(  # upright, so that a bar's label is no wider than the bar
                words(program), (place, height), (0, 4), textcoords="offset points", ha="center", va="bottom",
                rotation=90, size=8,
            )  # fmt: skip
            heights.append(height)
            label = "_"  # once in the legend is enough
    axes.axhline(1, color=FAINT, linewidth=0.8, linestyle=":", zorder=0)
    axes.set_ylim(0, 1.22 * max(heights))
    _name_groups(axes, configurations)


def _draw_parts(axes: Axes, configurations: Mapping[str, Any]) -> None:
    shown = {group: c["anatomy"] for group, c in enumerate(configurations.values()) if c["anatomy"]["failed"] is None}
    bottoms = dict.fromkeys(shown, 0.0)
    kinds = list(next(iter(shown.values()))["shares"]) if shown else []
    for kind, colour in zip(kinds, PARTS, strict=True) if kinds else ():
        for group, anatomy in shown.items():
            share = anatomy["shares"][kind]
            axes.bar(
                group, share, 0.62, bottom=bottoms[group], color=colour, edgecolor="white", linewidth=0.6,
                label=kind if group == min(shown) else "_",
            )  # fmt: skip
            if share >= 0.045:
                dark = "black" if colour in LIGHT else "white"
                middle = bottoms[group] + share / 2
                axes.text(group, middle, f"{share:.0%}", ha="center", va="center", size=7.5, color=dark)
            bottoms[group] += share
    for group, anatomy in shown.items():
        time = duration(anatomy["alone"])
        axes.annotate(time, (group, bottoms[group]), (0, 3), textcoords="offset points", ha="center", size=7.5)
    axes.set_ylim(0, 1.12 * max([1.0, *bottoms.values()]))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    _name_groups(axes, configurations)
    workers = sorted({anatomy["workers"] for anatomy in shown.values()})
    team = "one process" if workers == [1] else f"one of {' or '.join(map(str, workers))} processes"
    dress(axes, "where our time goes", f"{team}, alone" if workers else "")
    if workers:
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _name_groups(axes: Axes, configurations: Mapping[str, Any]) -> None:
    axes.set_xticks(range(len(configurations)), list(configurations))
    axes.set_xlim(-0.6, len(configurations) - 0.4)
    axes.tick_params(axis="x", length=0)


def growth_curves(result: Mapping[str, Any]) -> Figure:
    """Draw how time and memory grow with each size, on logarithmic axes, beside the powers that theory expects.

    For each size that varies there are axes for time, and below them axes for memory.

    Parameters
    ----------
    result : mapping
        What ``measure.speed.measure_growth`` returned.

    Raises
    ------
    ValueError
        If nothing was measured.
    """
    drawn = {name: axis for name, axis in result["axes"].items() if any(curve["points"] for curve in axis["curves"])}
    if not drawn:
        raise ValueError("growth_curves: found no point, expected at least one")
    figure = Figure(figsize=(1.2 + 3.4 * len(drawn), 6.6), layout="constrained")
    grid = figure.subplots(2, len(drawn), squeeze=False, sharex="col")
    for column, (name, axis) in enumerate(drawn.items()):
        for row, (what, key, unit) in enumerate((("time", "seconds", 1e-3), ("memory", "memory", 1e6))):
            axes = grid[row, column]
            _draw_growth(axes, axis["curves"], what, key, unit)
            title, xlabel = (f"{name} {axis['letter']}", "") if row == 0 else ("", axis["letter"])
            ylabel = ("time of a step, ms", "memory for a step, MB")[row] if column == 0 else ""
            dress(axes, title, xlabel, ylabel, "both")
        name_sizes(axes, (point["value"] for curve in axis["curves"] for point in curve["points"]))
    heading = (
        f"Our training step, on one core of {result['machine']['processor']}. "
        "Dashed: the growth that theory predicts for large sizes, through the last point."
    )
    heading = textwrap.fill(heading, int(15 * figure.get_figwidth()))
    head(figure, heading)
    return figure


def _draw_growth(axes: Axes, curves: Any, what: str, key: str, unit: float) -> None:
    for curve, (colour, marker, line) in zip(curves, CURVES, strict=False):
        points = [(point["value"], point[key] / unit) for point in curve["points"] if point[key]]
        if not points:
            continue
        x, y = np.array(points, dtype=float).T
        power, slope = curve[f"{what}_power"], curve[f"{what}_slope"]
        name = [] if curve["label"] == "plain" and len(curves) == 1 else [curve["label"]]
        name += [] if slope is None else [f"slope {slope:.2f}, expected {power:g}"]
        axes.loglog(x, y, line, color=colour, marker=marker, markersize=4, linewidth=1.3, label=": ".join(name) or "_")
        if len(x) > 1:
            theory = y[-1] * (x / x[-1]) ** power  # through the last point
            near = theory > y.min() / 1.5
            axes.loglog(x[near], theory[near], "--", color=colour, linewidth=0.8, alpha=0.7, zorder=1)
    if not axes.lines:
        axes.text(0.5, 0.5, "not known here", transform=axes.transAxes, ha="center", size=9, color=FAINT)
        return
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    low, high = axes.get_ylim()
    between = (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=between, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    room_above(axes, 0.08 + 0.07 * len(curves))


def _bytes(size: float | None) -> str:
    return "" if size is None else f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
