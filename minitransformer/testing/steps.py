"""What one step of finite differences tells about a slope, and which of several steps to trust.

    D(h) = (L(h) - L(-h)) / 2h         =  L'(0) + O(h²)
    R(h) = (4 D(h/2) - D(h)) / 3       =  L'(0) + O(h⁴)          (Richardson's extrapolation)

Two errors meet in R: truncation, which grows with h, and rounding, about ε |L| / h with ε the machine's precision,
which falls with h. |R(h) - D(h/2)| bounds the first, the formula the second. Rounding inside L may be larger than the
rounding of its result; it shows in the fourth difference of the five values, which is only O(h⁴) for a smooth function:

    L(h) - 4 L(h/2) + 6 L(0) - 4 L(-h/2) + L(-h)

L stands for its change from L(0), which the caller computes entry by entry: L(0) is 0.

If rounding inside L is so coarse that all five values may be equal, it shows in the first change of L as h grows:
log(1 + x) near x = 1e-9 rises in steps of ε.

Next: ``slopes.py``, which decides how many steps are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, log2
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.dtypes import EPS

Loss = Callable[[float], tuple[float, float]]
"""``loss(t) -> (L, size)``: the change from L(0), and the sum of the absolute values of the terms that may change."""
SAFETY = 4.0
IRREGULAR = 12664785 / 2.0**24
"""A number with 24 binary digits, about 0.755."""
COARSEST, COARSER_STAIRS, MOST_STAIRS = 2.0**16, 2.0**8, 4
"""The most that rounding inside L moves L by, beside terms of size 1, in units of ε; so many times more in float64
where terms cancel inside: then L has few values, at most so many from one step to its double."""
BETWEEN = np.array([-64, -32, 0, 32, 64, -53, -11, 29, 47]) / 64
"""Where L is compared with a cubic polynomial, in units of h: where a step knows it, and at other distances."""
POWERS = np.vander(BETWEEN, 4)
CUBIC = POWERS @ np.linalg.pinv(POWERS)
"""The matrix that replaces values at these points by those of the nearest cubic polynomial."""


class Slope(NamedTuple):
    """A measured slope."""

    value: float
    """Infinite if the function jumps."""
    error: float
    """A bound on the truncation and rounding error of the value."""
    sides: tuple[float, float] | None = None
    """The lower and the higher of the slopes to the left and right, if there is a kink."""
    h: float = 0.0
    """The step."""
    rounding: float = 0.0
    """The part of the error that the rounding of L causes."""

    def disagreement(self, claimed: float, tolerance: float) -> float:
        """Return the relative error of a claim: above the tolerance it is wrong; infinite if it is not finite."""
        if not isfinite(claimed) or not isfinite(self.value):
            return float("inf")
        low, high = self.sides or (self.value, self.value)
        outside = max(low - claimed, claimed - high, 0.0)
        return outside / max(abs(low), abs(high), abs(claimed), self.error / tolerance) if outside else 0.0


class Step(NamedTuple):
    """The measurement with one step h."""

    h: float
    central: float
    """D(h)."""
    slope: float
    """R(h)."""
    truncation: float
    rounding: float
    noise: float
    left: float
    right: float
    values: tuple[float, ...]
    """L(-h), L(-h/2), 0, L(h/2) and L(h)."""

    @property
    def jump(self) -> float:
        """The difference of the slopes on both sides."""
        return abs(self.right - self.left)

    @property
    def looks_smooth(self) -> bool:
        """Whether the slopes on both sides agree within the error of this step."""
        return self.jump <= 64 * self.rounding + 0.05 * abs(self.slope)


def first_step(eps: float) -> float:
    """Return the step at which R's truncation error h⁴ equals the rounding error ε/h."""
    return float(eps**0.2)


def short(h: float, eps: float) -> float:
    """Return a step of about this size with so few digits that x ± h is rarely rounded: then the actual step is h.

    In float64 it is no multiple of a power of two down to 2⁻²⁴ of it: a sine with a period of 2⁻²⁰ has the same phase
    at both ends of every longer step that is a power of two.
    """
    return float(2.0 ** round(log2(h)) * (IRREGULAR if eps <= EPS else 1.0))


def take_step(loss: Loss, h: float, eps: float = EPS) -> Step:
    """Take one step to both sides."""
    (high, size), (low, _), (high2, _), (low2, _) = (loss(t) for t in (h, -h, h / 2, -h / 2))
    coarse, fine = (high - low) / (2 * h), (high2 - low2) / h
    slope = (4 * fine - coarse) / 3
    noise = abs(high - 4 * high2 - 4 * low2 + low)
    left, right = -low2 / (h / 2), high2 / (h / 2)
    values = low, low2, 0.0, high2, high
    return Step(h, coarse, slope, abs(slope - fine), 8 * eps * size / h, noise, left, right, values)


def glance(loss: Loss, h: float) -> tuple[Slope, bool]:
    """Return D(h), with the bound on its rounding error alone, and whether the slopes on both sides agree."""
    (high, size), (low, _) = loss(h), loss(-h)
    rounding = 8 * EPS * size / h
    slope = Slope((high - low) / (2 * h), rounding, h=h, rounding=rounding)
    jump = abs(high + low) / h
    return slope, jump <= 64 * slope.error + 1e-3 * abs(slope.value)


def best_slope(steps: list[Step], safety: float = 1.0, noise: float = 0.0) -> Slope:
    """Return the slope of the step with the smallest error; noise is a lower bound of the errors."""
    found = []
    for s in reversed(steps):
        # Rounding noise does not fall with h as truncation does, so a smaller step reveals the noise in a larger one.
        noise = max(noise, s.noise)
        found.append(Slope(s.slope, safety * (s.truncation + noise / s.h) + s.rounding, h=s.h, rounding=s.rounding))
    # A larger step that contradicts a smaller one has missed a detail, such as a narrow steep part.
    trusted: list[Slope] = []
    for slope in found:
        if all(abs(slope.value - other.value) <= slope.error + other.error for other in trusted):
            trusted.append(slope)
    return min(trusted, key=lambda slope: slope.error)


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


def relative_error(a: Any, b: Any, floor: Any) -> Any:
    """Return |a - b| / max(|a|, |b|, floor), entry by entry; 0 where a and b are equal."""
    difference = np.where(np.equal(a, b), 0.0, np.abs(np.subtract(a, b)))
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    return np.where(difference == 0, 0.0, difference / np.where(scale == 0, 1.0, scale))
