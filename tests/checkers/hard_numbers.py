"""Right gradients that are hard to see as right: extreme scales, cancellation, long sums, and few digits."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
from sample import draw, read_formulas

SMALL, LARGE = draw(5), draw(5, seed=2)


def iterate(x: Any, n: int = 12) -> Any:
    """Return x after n steps of the logistic map."""
    for _ in range(n):
        x = 3.7 * x * (1 - x)
    return x


def iterate_backward(x: Any, d_y: Any, n: int = 12) -> Any:
    """Multiply the slopes of the steps."""
    slope = np.ones_like(x)
    for _ in range(n):
        slope = slope * (3.7 * (1 - 2 * x))
        x = 3.7 * x * (1 - x)
    return (d_y * slope,)


def repeat_tanh(x: Any) -> Any:
    """Return tanh applied forty times, and its slope."""
    slope = np.ones_like(x)
    for _ in range(40):
        x = np.tanh(x)
        slope = slope * (1 - x * x)
    return x, slope


def gelu_slope(x: Any) -> Any:
    """Return the derivative of GELU in its tanh form."""
    c = sqrt(2 / pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


HARD_NUMBERS = read_formulas(__file__, globals())
