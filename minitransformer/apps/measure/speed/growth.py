"""How the time and the memory of our training step grow with length, batch, width and depth.

One of them varies at a time around a small model; each point is measured in a process of its own, which builds the
model, does one step of a single token and reports how much memory it uses: interpreter, libraries, weights, Adam's
arrays. *Memory* is how far its peak is above that after some steps of the full size: activations, gradients and
temporary arrays. *Time* is the median of those steps, without the first. One core does the work.

What theory expects, as powers. The time of a step is linear in batch and depth; quadratic in the width D once the
products with weights (D x D each) dominate, and quadratic in the length T once attention (T x T each) dominates. Memory
is linear in batch and depth; quadratic in the width, once the gradients (D x D each) exceed the activations; and
quadratic in the length, where the attention weights (T x T each) dominate, unless attention works in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from minitransformer.apps.measure.machine import machine_memory
from minitransformer.apps.measure.powers import slope
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.turns import Process, ProcessError
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.files import read_toml

ENOUGH = 1.0
"""How long a point is measured, in seconds; at least two steps, at most 20."""
PATIENCE = 4.0
"""A step that takes at least this many seconds is measured once."""


@dataclass(frozen=True)
class Curve:
    """One way to compute, and the powers that theory expects of it."""

    label: str
    options: dict[str, Any]
    time_power: float
    memory_power: float


@dataclass(frozen=True)
class Axis:
    """What varies: its letter, around what, its values, and the curves."""

    letter: str
    centre: Workload
    values: Sequence[int]
    varied: Mapping[str, int]
    """The options of the workload that vary, each as a multiple of the value."""
    curves: Sequence[Curve]

    def at(self, curve: Curve, value: int) -> Workload:
        """Return the workload of a point."""
        return self.centre.changed(**curve.options, **{name: n * value for name, n in self.varied.items()})


def _read_axis(letter: str, centre: Mapping[str, int], curves: Sequence[Mapping[str, Any]], **rest: Any) -> Axis:
    return Axis(letter, Workload().changed(**centre), curves=[Curve(**curve) for curve in curves], **rest)


AXES = {name: _read_axis(**axis) for name, axis in read_toml(Path(__file__).with_suffix(".toml")).items()}


def measure_growth(tell: Callable[[str], None], axes: Mapping[str, Axis] = AXES) -> dict[str, Any]:
    """Measure all curves along all axes.

    A point is left out if its memory, extrapolated from the point before by the power of theory, would exceed half of
    the machine's; larger points are left out too.

    Parameters
    ----------
    tell : callable
        Called with each message about the progress.
    axes : mapping of str to Axis
        What to vary.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"axes"``, by name.
    """
    result: dict[str, Any] = {"axes": {}}
    for name, axis in axes.items():
        curves: list[dict[str, Any]] = []
        result["axes"][name] = {"letter": axis.letter, "centre": axis.centre.flat(), "curves": curves}
        for curve in axis.curves:
            label = f"{name}, {curve.label}"
            tell(label)
            points, left_out = _points(label, axis, curve, machine_memory(), tell)
            x = [point["value"] for point in points]
            memory = [point["memory"] for point in points]
            curves.append(
                {
                    "label": curve.label,
                    "options": curve.options,
                    "points": points,
                    "left_out": left_out,
                    "time_power": curve.time_power,
                    "memory_power": curve.memory_power,
                    "time_slope": slope(x, [point["seconds"] for point in points]),
                    "memory_slope": None if None in memory else slope(x, memory),
                }
            )
    return result


def _points(
    label: str, axis: Axis, curve: Curve, available: int | None, tell: Callable[[str], None]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the points of a curve, and why some are left out, if some are."""
    points: list[dict[str, Any]] = []
    for value in axis.values:
        if points and available and points[-1]["memory"] is not None:
            before = points[-1]
            predicted = before["resident"] + before["memory"] * (value / before["value"]) ** curve.memory_power
            if predicted > available / 2:
                return points, (
                    f"{axis.letter} {value} and more: it would take about {predicted / 1e9:.1f} GB, "
                    f"more than half of this machine's {available / 1e9:.1f} GB"
                )
        try:
            points.append(_point(axis.at(curve, value), value))
        except ProcessError as death:
            return points, f"{axis.letter} {value} and more: {death}"
        tell(f"{label}: {axis.letter} {value}: {1e3 * points[-1]['seconds']:.1f} ms")
    return points, None


def _point(workload: Workload, value: int) -> dict[str, Any]:
    with Process(command("growth", workload)) as process:
        resident = process.read()["ready"]["resident"]
        (first,) = process.ask(1)["seconds"]
        answer = process.ask(min(max(round(ENOUGH / first), 2 if first < PATIENCE else 1), 20))
    peak = answer["peak"]
    return {
        "value": value,
        "seconds": median(answer["seconds"]),
        "all_seconds": answer["seconds"],
        "resident": resident,
        "peak": peak,
        "memory": None if peak is None or resident is None else max(peak - resident, 1),
    }
