"""What one step of finite differences tells about a slope, and which of several steps to trust.

    D(h) = (L(h) - L(-h)) / 2h         =  L'(0) + O(h²)
    R(h) = (4 D(h/2) - D(h)) / 3       =  L'(0) + O(h⁴)          (Richardson's extrapolation)

Two errors meet in R: truncation, which grows with h, and rounding, about ε |L| / h with ε the machine's precision,
which falls with h. |R(h) - D(h/2)| bounds the first, the formula the second. Rounding inside L may be larger than the
rounding of its result; it shows in the fourth difference of the five values, which is only O(h⁴) for a smooth function:

    L(h) - 4 L(h/2) + 6 L(0) - 4 L(-h/2) + L(-h)

L stands for its change from L(0), which the caller computes entry by entry: L(0) is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import NamedTuple

from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measured_slope import Slope

Loss = Callable[[float], tuple[float, float]]
"""``loss(t) -> (L, size)``: the change from L(0), and the sum of the absolute values of the terms that may change."""
SAFETY = 4.0
IRREGULAR = 12664785 / 2.0**24
"""A number with 24 binary digits, about 0.755."""


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
