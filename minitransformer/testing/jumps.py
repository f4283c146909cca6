"""Functions in float64 that round inside: to float32, to a shorter type, or to a grid.

Their values stand still and jump as the inputs move, so finite differences in float64 say nothing about the gradient.
At points at equal distances, the fourth differences of a smooth function are about the fourth power of the distance,
and those of a function that rounds to float32 inside are 2⁻²⁴. A kink or a narrow steep part may look the same at these
points, but between them its changes get smaller, and those of rounding do not. Only a function whose gradient does not
agree with finite differences is examined like this.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.claim import Claim
from minitransformer.testing.dtypes import precision_of
from minitransformer.testing.low_precision import SPREAD, typical_sizes
from minitransformer.testing.report import Stop

LINES = (2.0**-18, 2.0**-12, 2.0**-9, 2.0**-6)
"""How far the inputs move at a time, relative to the inputs."""
POINTS = 8
"""How many points the value is compared at, with each of these distances."""
CLOSEST = 2.0**-45
"""How close to a jump its two sides are compared, relative to the inputs."""
COARSE = 2.0**-28
"""Values in float64 that scatter by more, relative to the largest, come from a shorter type."""
COARSEST = 2.0**-5
"""Rounding to bfloat16 changes a number by at most 2⁻⁷; what is computed from it may change more."""
FALLEN = 1 / 32
"""A change between two points has fallen below this part where their distance is ``CLOSEST``; a jump has not."""
NOTHING = 2.0**-8
"""A change of less than this part of the least jump holds no jump."""


def why_coarse(claim: Claim, wide: Claim) -> str:
    """Return why a function cannot be measured in float64 if it rounds inside; then its precision is float32 at best.

    Parameters
    ----------
    claim : Claim
        The function in the precision of its inputs.
    wide : Claim
        The same function in float64.

    Raises
    ------
    Stop
        If it rounds to a shorter type than float32. Such a type and a grid look alike, and have different gradients:
        that of a grid is 0, and that of a type is the gradient of what is rounded.
    """
    jump = find_jump(wide)
    if not jump:
        return ""
    float32 = precision_of(None, np.empty(0, np.float32))
    if jump > SPREAD * max(claim.eps, float32.eps):
        raise Stop(
            "undecided",
            f"the function rounds inside, to a shorter type than float32 or to a grid: its value jumps by {jump:.1e} "
            "of its size; check it without the rounding",
        )
    claim.work_in(max(claim.precision, float32, key=lambda precision: precision.eps))
    return "the function rounds inside, to a shorter type or to a grid, whatever its inputs are"


def find_jump(claim: Claim) -> float:
    """Return how far a function in float64 that rounds inside jumps, relative to its value; 0 if it does not round."""
    moving = {i: claim.case.inputs[i].astype(np.float64) for i in claim.case.moving}
    steps = {i: draw_cotangent(claim.rng, x.shape) * typical_sizes(x) for i, x in moving.items()}

    def value(t: float) -> Array:
        moved = [moving[i] + t * steps[i] if i in moving else x for i, x in enumerate(claim.case.inputs)]
        with np.errstate(all="ignore"):
            return claim.case.value(moved)

    largest = float(np.abs(claim.output.vector).max(initial=0.0))
    for step in LINES:
        line = np.array([value(n * step) for n in range(1, POINTS + 1)])  # not at the inputs: it may jump there itself
        if not line.size or not np.isfinite(line).all():
            return 0.0
        fourth = np.abs(np.diff(line, 4, axis=0)).max(axis=0)
        entry = int(fourth.argmax())
        largest = max(largest, float(np.abs(line).max()))
        if fourth[entry] > COARSE * largest:
            jump = _jump(value, entry, step, line[:, entry], FALLEN * float(fourth[entry]))
            if jump:
                return jump / largest if jump <= COARSEST * largest else 0.0
    return 0.0


def _jump(value: Callable[[float], Array], entry: int, step: float, line: Array, least: float) -> float:
    """Return how far an entry of a value jumps between points at a distance of one step; 0 if by less than ``least``.

    The interval that is farthest from a straight line is halved. A jump in it stays as it is; a change does not.
    """
    changes = np.diff(line)
    trend = float(changes[np.abs(changes).argmin()])
    start = int(np.abs(changes - trend).argmax())
    left, low, high = (start + 1) * step, float(line[start]), float(line[start + 1])
    while (jump := abs(high - low - trend)) > NOTHING * least and step > CLOSEST:
        step, trend = step / 2, trend / 2
        middle = float(value(left + step)[entry])
        if abs(middle - low - trend) > abs(high - middle - trend):
            high = middle
        else:
            left, low = left + step, middle
    return jump if jump > least else 0.0
