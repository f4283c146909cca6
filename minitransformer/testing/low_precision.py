"""Gradients in float32 and shorter types: whether the formula is right, and whether it survives rounding.

Finite differences in a short type cannot answer the first question: rounding leaves them two or three digits. So the
function is measured in float64, where it runs there: the inputs are converted, which changes no number, and the value
must agree with the one in the short type. There the backward pass must agree with finite differences as tightly as for
float64 inputs. The second question compares two gradients at the same inputs, without any finite difference:

    |g - g64| <= √ε |g64| + R          R: what rounding explains

R is measured: the inputs are changed by about one rounding, and the gradient with them. Rounding of numbers inside the
backward pass may do more (1 - y is 0 for a y of 1 - 1e-9): about ε |d_y| |y| / |x|. An error that only this bound or a
large R explains is neither right nor wrong.

Functions in float64 may round inside too: to float32, to a shorter type, or to a grid. Their values stand still and
jump as the inputs move, so finite differences in float64 say nothing about the gradient. At points at equal distances,
the fourth differences of a smooth function are about the fourth power of the distance, and those of a function that
rounds to float32 inside are 2⁻²⁴. A kink or a narrow steep part may look the same at these points, but between them its
changes get smaller, and those of rounding do not. Only a function whose gradient does not agree with finite differences
is examined like this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent, is_float
from minitransformer.testing.claim import ROUNDINGS, Claim
from minitransformer.testing.dtypes import EPS, precision_of
from minitransformer.testing.measurement import UNCLEAR
from minitransformer.testing.report import Stop, Verdict

TRIES = 8
NEARBY = 2.0**-6
"""How far away another rounding of the value is searched for, relative to the inputs."""
SPREAD = 8.0
"""Rounding errors of a value are at most this many times as large as they differ from point to point."""
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


@dataclass(frozen=True)
class Loss:
    """The entry of a gradient that differs most from the same gradient in float64."""

    i: int
    """The index of the input."""
    index: tuple[int, ...]
    found: float
    expected: float
    explained: float
    """The error that rounding explains."""
    verdict: Verdict
    """``"right"``, ``"undecided"`` or ``"wrong"``."""


def widen(claim: Claim) -> Claim | str:
    """Return the claim of the same function in float64, or why that cannot replace this one."""
    if claim.eps <= EPS:
        return claim
    if all(claim.case.inputs[i].dtype == np.float64 for i in claim.case.moving):
        return f"the function computes in {claim.precision} whatever its inputs are"
    try:
        d_output = claim.output.structure(claim.output.cotangent(claim.d_output))
        wide = Claim(claim.case.widened(), claim.rng, d_output, claim.allowed)
    except Exception as error:  # whatever a library raises for a type that it does not support
        first = str(error).partition("\n")[0]
        return f"the function does not run in float64 ({type(error).__name__}{first and ': '}{first})"
    if wide.eps > EPS:
        return f"the function computes in {wide.precision} whatever its inputs are"
    if any(g.shape != wide.gradients[i].shape for i, g in claim.gradients.items()) or not _agree(claim, wide):
        return "the function computes something else in float64"
    return wide


def typical_sizes(x: Array) -> Array:
    """Return the size of each entry, or that of a typical one where it is 0."""
    sizes = np.where(np.isfinite(x), np.abs(x), 0.0)
    return np.where(x == 0, (float(np.median(sizes)) if x.size else 0.0) or 1.0, sizes)


def losses(claim: Claim, wide: Claim) -> list[Loss]:
    """Return for each input how much of its gradient is lost in a short type."""
    return [_loss(claim, wide, i) for i, gradient in wide.gradients.items() if gradient.size]


def _loss(claim: Claim, wide: Claim, i: int) -> Loss:
    found, expected = claim.gradients[i], wide.gradients[i]
    sizes = np.maximum(np.abs(found), np.abs(expected))
    errors = np.abs(found - expected)
    beyond = errors - claim.tolerance * sizes
    explained = np.zeros(found.shape)
    if (beyond > 0).any():
        explained = ROUNDINGS * (claim.noise(i) + _inner_rounding(claim, wide, i))
    worst = int((beyond - explained).argmax())
    verdict: Verdict = "wrong" if (beyond > explained).any() else "right"
    unclear = errors > max(UNCLEAR, claim.tolerance) * sizes.max()
    if verdict == "right" and (unclear & (beyond > 0)).any():
        worst, verdict = int((errors * (beyond > 0)).argmax()), "undecided"
    index = tuple(int(n) for n in np.unravel_index(worst, found.shape))
    return Loss(i, index, float(found[index]), float(expected[index]), float(explained[index]), verdict)


def _inner_rounding(claim: Claim, wide: Claim, i: int) -> Array:
    """Return how much the rounding of numbers inside the function may change a gradient, entry by entry.

    Numbers inside are as large as the value, or larger: sin(x + 1e4) rounds 1e4, and its value shows by how much.
    """
    sizes = typical_sizes(claim.case.inputs[i].astype(np.float64))
    scales = np.maximum(sizes, np.median(sizes))
    d_output, error = claim.d_output.astype(np.float64), claim.output.vector - wide.output.vector
    rounding = np.abs(d_output) * np.maximum(claim.eps * np.abs(claim.output.vector), np.abs(error))
    return np.asarray(rounding.max(initial=0.0) / np.where(scales == 0, 1.0, scales))


def _agree(claim: Claim, wide: Claim) -> bool:
    """Return whether the values agree up to rounding, which varies from point to point; a true difference does not."""
    if claim.output.vector.shape != wide.output.vector.shape:
        return False
    error = claim.output.vector - wide.output.vector
    if np.abs(error).max(initial=0.0) <= claim.tolerance * np.abs(wide.output.vector).max(initial=0.0):
        return True
    spread = 0.0
    for _ in range(TRIES):
        inputs = claim.nearby(NEARBY)
        with np.errstate(all="ignore"):
            change = (
                claim.case.value(inputs)
                - wide.case.value([x.astype(np.float64) if is_float(x) else x for x in inputs])
                - error
            )
        spread = max(spread, float(np.abs(change[np.isfinite(change)]).max(initial=0.0)))
    return bool(np.abs(error).max() <= SPREAD * spread)


def why_coarse(claim: Claim, wide: Claim) -> str:
    """Return why a function cannot be measured in float64 if it rounds inside; then its precision is float32 at best.

    A shorter type than float32 stops the check. Such a type and a grid look alike, and have different gradients: that
    of a grid is 0, and that of a type is the gradient of what is rounded.
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
