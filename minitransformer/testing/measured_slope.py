"""A measured slope with a bound on its error, and how far a claimed slope is from it."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np


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


def relative_error(a: Any, b: Any, floor: Any) -> Any:
    """Return |a - b| / max(|a|, |b|, floor), entry by entry; 0 where a and b are equal.

    Parameters
    ----------
    a, b : array or number
        What is compared.
    floor : array or number
        The divisor where a and b are smaller.

    Returns
    -------
    array or number
    """
    difference = np.where(np.equal(a, b), 0.0, np.abs(np.subtract(a, b)))
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    return np.where(difference == 0, 0.0, difference / np.where(scale == 0, 1.0, scale))
