"""The paper's Table 1 as a picture: which position reads which, the cost, and how far a gradient reaches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullFormatter

from minitransformer.apps.measure.pictures.axes import dress, head, name_sizes, room_above
from minitransformer.apps.plots.colours import STYLES
from minitransformer.console import counted

Place = tuple[int, int]
"""A layer and a position in it; layer 0 is the inputs."""


def table1_picture(result: Mapping[str, Any]) -> Figure:
    """Draw the layers' graphs, and how operations, paths, times and gradients grow or shrink.

    The axes are one for each layer's graph, then those of operations, path lengths, times and gradients.

    Parameters
    ----------
    result : mapping
        What ``measure.table1.measure_table1`` returned.
    """
    figure = Figure(figsize=(14.5, 7.6), layout=ConstrainedLayoutEngine(hspace=0.07, wspace=0.05))
    graphs, (operations, paths, times, gradients) = figure.subplots(2, 4, height_ratios=[1, 1.15])
    far, example = result["far"], result["example"]
    _draw_graphs(graphs, result)
    _draw_paths(paths, result)
    for row, style in zip(result["layers"].values(), STYLES, strict=True):
        power = row["theory"]["operations"]["n"]
        points = _at(row["operations"]["points"], example, row["operations"]["fit"])
        _draw(operations, [(p["n"], p["operations"]) for p in points], style, power, row["operations"]["fit"]["n"])
        points = row["time"]["points"]
        _draw(times, [(p["n"], 1e3 * p["seconds"]) for p in points], style, power, row["time"]["slope"])
        norms = row["gradients"]["norms"]
        gradients.semilogy(
            range(len(norms)), norms, linestyle=style[2], color=style[0], linewidth=1.5,
            label=counted(row["gradients"]["layers"], "layers"),
        )  # fmt: skip
    sizes = ", ".join(f"{size} {example[size]}" for size in ("d", "k", "r"))
    _dress(operations, f"operations of a layer; {sizes}", "n", "floating-point operations", FuncFormatter(_large))
    _dress(times, f"time of a layer; {sizes}", "n", "ms, forward, one thread")
    title = f"gradient of the last output; n {far['n']}, k {far['k']}, r {far['r']}"
    _dress(gradients, title, "distance |i - j|", "norm at input i")
    head(
        figure,
        "Table 1, measured. Above: which position reads which, from the recorded graph, and a shortest path from the "
        "first input to the last output.\n"
        "Below, in the same colours: the measurements; broad and pale, the theory, through the last point.",
    )
    return figure


def paths_picture(result: Mapping[str, Any]) -> Figure:
    """Draw the layers' graphs, and how their longest paths grow.

    Parameters
    ----------
    result : mapping
        What ``measure.paths.measure_paths`` returned.
    """
    figure = Figure(figsize=(18, 3.6), layout="constrained")
    *graphs, paths = figure.subplots(1, 5)
    _draw_graphs(graphs, result)
    _draw_paths(paths, result)
    return figure


def _draw_graphs(graphs: Iterable[Axes], result: Mapping[str, Any]) -> None:
    drawn = result["drawn"]
    at = {"convolutional": f", k {drawn['k']}", "restricted self-attention": f", r {drawn['r']}"}
    for axes, (name, row), (colour, _, _) in zip(graphs, result["layers"].items(), STYLES, strict=True):
        steps = draw_graph(axes, row["graph"], drawn["n"], colour)
        axes.set_title(f"{name}{at.get(name, '')}", loc="left", size=11, color=colour, weight="bold")
        layers = counted(max(arrow[2] for arrow in row["graph"]), "layers")
        axes.set_xlabel(f"{layers}; from input 1 to output {drawn['n']}: {counted(steps, 'steps')}", size=9)


def _draw_paths(axes: Axes, result: Mapping[str, Any]) -> None:
    for row, style in zip(result["layers"].values(), STYLES, strict=True):
        powers, found = row["theory"]["path"], row["path"]
        theory: Any
        if "log_k n" in powers:
            points = [point for point in found["points"] if point["k"] == 2]
            theory, label = np.log2, f"{found['fit']['log_k n']:.2f} log_k n, drawn for k 2"
        else:
            points = [point for point in found["points"] if point["r"] == found["example"]["r"]]
            theory = powers["n"]
            label = f"n^{found['fit']['n']:.2f}" + (f", drawn for r {points[0]['r']}" if "r" in powers else "")
        _draw(axes, [(p["n"], p["steps"]) for p in points], style, theory, label)
    _dress(axes, "longest of the shortest paths", "n", "steps")


def _at(points: Sequence[Any], example: Mapping[str, int], names: Mapping[str, float]) -> list[Any]:
    """Return the points in which n alone varies."""
    fixed = [name for name in names if name != "n"]
    there = [point for point in points if all(point[name] == example[name] for name in fixed)]
    return there or [point for point in points if all(point[name] == points[0][name] for name in fixed)]


def draw_graph(axes: Axes, graph: Sequence[Sequence[int]], n: int, colour: str) -> int:
    """Draw which of n positions reads which, as ``measure.paths.arrows`` returns it, and a shortest path in colour.

    The path leads from the first input to the last output. Its length is returned.
    """
    readers: dict[Place, list[Place]] = {}
    for from_layer, from_position, layer, position in graph:
        readers.setdefault((from_layer, from_position), []).append((layer, position))
        _arrow(axes, (from_layer, from_position), (layer, position), "0.72", 0.8, 1)
    layers = max(arrow[2] for arrow in graph)
    path = _shortest_path(readers, (0, 0), (layers, n - 1))
    for start, end in pairwise(path):
        _arrow(axes, start, end, colour, 2.2, 3)
    for layer in range(layers + 1):
        on_path = [(layer, i) in path for i in range(n)]
        axes.scatter(
            range(1, n + 1), [layer] * n, s=70, zorder=4, linewidths=1.3,
            edgecolors=[colour if on else "0.45" for on in on_path],
            facecolors=[colour if on else "white" for on in on_path],
        )  # fmt: skip
    axes.set_yticks(range(layers + 1), ["x", *(f"layer {i}" if layers > 1 else "y" for i in range(1, layers + 1))])
    axes.set_xticks(range(1, n + 1))
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.set_xlim(0.5, n + 0.5)
    axes.set_ylim(-0.15 * layers, 1.15 * layers)
    return len(path) - 1


def _arrow(axes: Axes, start: Place, end: Place, colour: str, width: float, order: int) -> None:
    axes.annotate(
        "", (end[1] + 1, end[0]), (start[1] + 1, start[0]), zorder=order,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 4.5, "shrinkB": 4.5,
                    "mutation_scale": 6 + 2 * width},
    )  # fmt: skip


def _shortest_path(readers: Mapping[Place, Sequence[Place]], start: Place, end: Place) -> list[Place]:
    """Return the places on a shortest path."""
    before: dict[Place, Place | None] = {start: None}
    queue = deque([start])
    while queue and end not in before:
        place = queue.popleft()
        for reader in readers.get(place, ()):
            if reader not in before:
                before[reader] = place
                queue.append(reader)
    path, at = [], before.get(end) and end
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def _draw(axes: Axes, points: Sequence[tuple[float, float]], style: Any, theory: Any, found: Any) -> None:
    """Draw a measured line, and theory through its last point: a power of n, or a function of it."""
    colour, marker, line = style
    x, y = np.array(points, dtype=float).T
    expected = theory(x) if callable(theory) else x**theory
    axes.loglog(x, y[-1] * expected / expected[-1], "-", color=colour, linewidth=5, alpha=0.22, zorder=1)
    label = found if isinstance(found, str) else f"n^{found:.2f}"
    axes.loglog(x, y, linestyle=line, color=colour, marker=marker, markersize=4.5, linewidth=1.4, label=label)


def _dress(axes: Axes, title: str, xlabel: str, ylabel: str, numbers: FuncFormatter | None = None) -> None:
    dress(axes, title, xlabel, ylabel, "both")
    if axes.get_xscale() == "log":
        name_sizes(axes, (2 ** round(np.log2(n)) for line in axes.lines for n in np.asarray(line.get_xdata())))
        axes.yaxis.set_major_formatter(numbers or FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        room_above(axes, 0.32)
    axes.legend(frameon=False, fontsize=8, loc="upper left" if axes.get_xscale() == "log" else "lower left")


def _large(value: float, _: int | None) -> str:
    return f"{value / 1e9:g} G" if value >= 1e9 else f"{value / 1e6:g} M"
