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

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import is_float
from minitransformer.testing.claim import ROUNDINGS, Claim
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measurement import UNCLEAR
from minitransformer.testing.report import Verdict

TRIES = 8
NEARBY = 2.0**-6
"""How far away another rounding of the value is searched for, relative to the inputs."""
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
