"""Gradients in float32 and shorter types: whether the formula is right, and whether it survives rounding.

Finite differences in a short type cannot answer the first question: rounding leaves them two or three digits. So the
function is measured in float64, where it runs there: the inputs are converted, which changes no number, and the value
must agree with the one in the short type. There the backward pass must agree with finite differences as tightly as for
float64 inputs. The second question compares two gradients at the same inputs, without any finite difference:

    |g - g64| <= √ε |g64| + R          R: what rounding explains

R is measured: the inputs are changed by about one rounding, and the gradient with them. Rounding of numbers inside the
backward pass may do more (1 - y is 0 for a y of 1 - 1e-9): about ε |d_y| |y| / |x|. An error that only this bound or a
large R explains is neither right nor wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.claim import ROUNDINGS, Claim, Stop
from minitransformer.testing.dtypes import precision_of
from minitransformer.testing.report import Verdict
from minitransformer.testing.slopes import EPS

__all__ = ["UNCLEAR", "Loss", "losses", "widen"]

UNCLEAR = 0.01
"""An error bound that is this part of the largest gradient of an input leaves nothing to decide."""
TRIES = 8
NEARBY = 2.0**-6
"""How far away another rounding of the value is looked for, relative to the inputs."""
LINES = (2.0**-25, 2.0**-18, 2.0**-12, 2.0**-9)
"""How far the inputs move at a time to see whether a function rounds inside, relative to the inputs."""
CLOSEST = 2.0**-45
"""How close to a jump its two sides are compared, relative to the inputs."""
COARSE = 2.0**-28
"""Values in float64 that scatter by more, relative to the largest, come from a shorter type."""
COARSEST = 2.0**-7
"""Rounding to the shortest type, bfloat16, changes a value by at most this, relative to the largest."""
SPREAD = 8.0
"""Rounding errors of a value are at most this many times as large as they differ from point to point."""


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
    """Return the claim of the same function in float64, or why there is none that stands for this one.

    Raises
    ------
    Stop
        If the function rounds so coarsely inside that finite differences show nothing.
    """
    if claim.eps <= EPS:
        return _require_fine(claim, claim) or claim
    if all(claim.case.inputs[i].dtype == np.float64 for i in claim.case.moving):
        return f"the function computes in {claim.precision} whatever its inputs are"
    try:
        d_output = claim.output.structure(claim.output.cotangent(claim.d_output))
        wide = Claim(claim.case.widened(), claim.rng, d_output)
    except Exception as error:  # whatever a library raises for a type that it does not support
        first = str(error).partition("\n")[0]
        return f"the function does not run in float64 ({type(error).__name__}{first and ': '}{first})"
    if wide.eps > EPS:
        return f"the function computes in {wide.precision} whatever its inputs are"
    if any(g.shape != wide.gradients[i].shape for i, g in claim.gradients.items()) or not _agree(claim, wide):
        return "the function computes something else in float64"
    return _require_fine(claim, wide) or wide


def _require_fine(claim: Claim, wide: Claim) -> str:
    """Return why a function in float64 is measured in a shorter type, if it rounds inside; stop if it does so coarsely.

    The rounding of float16 and a grid look alike. The gradient of a grid is 0, and that of rounding is the gradient of
    what is rounded.
    """
    jump = _rounding_inside(wide)
    float32 = precision_of(None, np.empty(0, np.float32))
    if jump > SPREAD * max(claim.eps, float32.eps):
        cause = (
            f"the function rounds inside, to a shorter type than float32 or to a grid: its value jumps by "
            f"{jump:.1e} of its size; check it without the rounding"
        )
        raise Stop("undecided", cause)
    if jump:
        claim.precision = max(claim.precision, float32, key=lambda precision: precision.eps)
    return "the function rounds inside, to a shorter type or to a grid, whatever its inputs are" if jump else ""


def _rounding_inside(claim: Claim) -> float:
    """Return how far a function in float64 that rounds inside jumps, relative to its value; 0 if it does not round.

    The inputs move by 2⁻²⁵ and by larger steps. At points at equal distances, the fourth differences of a smooth
    function are about the fourth power of the step, and those of a function that rounds to float32 inside are 2⁻²⁴. A
    kink or a narrow steep part may look the same at these points, but between them its changes get smaller, and those
    of rounding do not.
    """
    signs = {i: claim.rng.choice((-1.0, 1.0), x.shape) * _sizes(x) for i, x in _moving(claim).items()}
    along = sum(float((g * signs[i]).sum()) for i, g in claim.gradients.items() if g.shape == signs[i].shape)
    largest = float(np.abs(claim.output.vector).max(initial=0.0))
    flat = True
    for step in LINES:
        line = np.array([_value_at(claim, signs, n * step) for n in range(1, 7)])
        if not line.size or not np.isfinite(line).all():
            return 0.0
        flat &= bool((line == line[0]).all())  # the value at the inputs is left out: it may jump there itself
        if flat and abs(along) <= COARSE * float(np.abs(claim.d_output * line[0]).sum()):
            return 0.0
        fourth = np.abs(np.diff(line, 4, axis=0)).max(axis=0)
        entry = int(fourth.argmax())
        largest = max(largest, float(np.abs(line).max()))
        if fourth[entry] > COARSE * largest:
            jump = _jump(claim, signs, step, line[:, entry], entry)
            if jump > fourth[entry] / 32:
                return _of_a_type(jump / largest)
    if not flat:
        return 0.0
    changes = (float(np.abs(_value_at(claim, signs, 2.0**n) - line[0]).max()) for n in range(-6, 1))
    return _of_a_type(next((change for change in changes if change), np.inf) / (largest or 1.0))


def _of_a_type(jump: float) -> float:
    """Return a jump, or 0 if it is larger than the rounding of any type."""
    return jump if jump <= COARSEST else 0.0


def _jump(claim: Claim, signs: dict[int, Array], step: float, line: Array, entry: int) -> float:
    """Return how far an entry of the value jumps between points at a distance of one step; 0 if it does not.

    The interval that is farthest from a straight line is halved. A jump in it stays as it is; a change does not.
    """
    changes = np.diff(line)
    trend = float(changes[np.abs(changes).argmin()])
    start = int(np.abs(changes - trend).argmax())
    left, low, high = (start + 1) * step, float(line[start]), float(line[start + 1])
    deviations = []
    while step > CLOSEST:
        step, trend = step / 2, trend / 2
        middle = float(_value_at(claim, signs, left + step)[entry])
        if abs(middle - low - trend) > abs(high - middle - trend):
            high = middle
        else:
            left, low = left + step, middle
        deviations.append(abs(high - low - trend))
    return deviations[-1] if deviations[-1] > deviations[-10] / 4 else 0.0


def _value_at(claim: Claim, signs: dict[int, Array], t: float) -> Array:
    """Return the value where each input has moved by t times its size."""
    moved = {i: x + t * signs[i] for i, x in _moving(claim).items()}
    with np.errstate(all="ignore"):
        return claim.case.value([moved.get(i, x) for i, x in enumerate(claim.case.inputs)])


def _moving(claim: Claim) -> dict[int, Array]:
    return {i: claim.case.inputs[i].astype(np.float64) for i in claim.case.moving}


def _sizes(x: Array) -> Array:
    """Return the size of each entry, or that of a typical one where it is 0."""
    sizes = np.where(np.isfinite(x), np.abs(x), 0.0)
    return np.where(x == 0, (float(np.median(sizes)) if x.size else 0.0) or 1.0, sizes)


def losses(claim: Claim, wide: Claim) -> list[Loss]:
    """Return for each input what a short type does to its gradient."""
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
    sizes = _sizes(_moving(claim)[i])
    scales = np.maximum(sizes, np.median(sizes))
    d_output, error = claim.d_output.astype(np.float64), claim.output.vector - wide.output.vector
    rounding = np.abs(d_output) * np.maximum(claim.eps * np.abs(claim.output.vector), np.abs(error))
    return np.asarray(rounding.max(initial=0.0) / np.where(scales == 0, 1.0, scales))


def _agree(claim: Claim, wide: Claim) -> bool:
    """Return whether the values agree up to rounding, which is another one at each point; a difference is not."""
    if claim.output.vector.shape != wide.output.vector.shape:
        return False
    error = claim.output.vector - wide.output.vector
    if np.abs(error).max(initial=0.0) <= claim.tolerance * np.abs(wide.output.vector).max(initial=0.0):
        return True
    spread = 0.0
    for _ in range(TRIES):
        inputs = claim.nearby(NEARBY)
        with np.errstate(all="ignore"):
            change = claim.case.value(inputs) - wide.case.value([_in_float64(x) for x in inputs]) - error
        spread = max(spread, float(np.abs(change[np.isfinite(change)]).max(initial=0.0)))
    return bool(np.abs(error).max() <= SPREAD * spread)


def _in_float64(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
