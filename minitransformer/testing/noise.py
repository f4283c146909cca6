"""Rounding inside a function: how coarse its values are, and how far they scatter about a cubic polynomial.

If rounding inside L is so coarse that all five values of a step may be equal, it shows in the first change of L as h
grows: log(1 + x) near x = 1e-9 rises in steps of ε.
"""

from __future__ import annotations

from math import log2

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.steps import Loss

COARSEST, COARSER_STAIRS, MOST_STAIRS = 2.0**16, 2.0**8, 4
"""The most that rounding inside L moves L by, beside terms of size 1, in units of ε; so many times more in float64
where terms cancel inside: then L has few values, at most so many from one step to its double."""
BETWEEN = np.array([-64, -32, 0, 32, 64, -53, -11, 29, 47]) / 64
"""Where L is compared with a cubic polynomial, in units of h: where a step knows it, and at other distances."""
POWERS = np.vander(BETWEEN, 4)
CUBIC = POWERS @ np.linalg.pinv(POWERS)
"""The matrix that replaces values at these points by those of the nearest cubic polynomial."""


def smallest_change(loss: Loss, step: float, eps: float) -> float:
    """Return the smallest change that L shows up to this step, if rounding explains it: it is the noise in L."""
    step = 2.0 ** round(log2(step))  # the least steps of another length would be rounded
    farthest = 0 if eps <= EPS else 8  # a low precision hides changes at larger steps
    for h in (step * 2.0**n for n in range(-40, farthest + 1)):
        (high, size), (low, _) = loss(h), loss(-h)
        if high != low:
            change, most = abs(high - low), COARSEST * eps * max(1.0, size)
            small = change <= most or (eps <= EPS and change <= COARSER_STAIRS * most and _is_stairs(loss, h))
            if h > step and not small:
                break
            # A large change is a jump of L itself; in a low precision only if it is at x, not a short way off.
            return change if small or (eps > EPS and h > 4 * eps**0.8 * step) else 0.0
    return 4 * eps  # no change at all: among terms of size 1 it would be invisible


def _is_stairs(loss: Loss, h: float) -> bool:
    """Return whether L takes few values from h to 2 h, where h is the first step that changes it."""
    return all(len({loss(side * h * n / 16)[0] for n in range(16, 33)}) <= MOST_STAIRS for side in (-1, 1))


def scatter_of(loss: Loss, h: float, middle: float = 0.0, known: tuple[float, ...] = ()) -> float:
    """Return how far L scatters about a cubic polynomial within h of the middle: rounding inside L, or missed turns."""
    return float(scatter(np.array([*known, *(loss(middle + h * float(t))[0] for t in BETWEEN[len(known) :])])))


def scatter(values: Array) -> Array:
    """Return how far values at ``BETWEEN``, (9, ...), scatter about a cubic polynomial; 0 if some are not finite."""
    with np.errstate(invalid="ignore"):
        found = 2 * np.abs(values - CUBIC @ values).max(axis=0)
    return np.asarray(np.where(np.isfinite(found), found, 0.0))
