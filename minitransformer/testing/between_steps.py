"""What a function may do between the steps that were taken, before a claim that they contradict is called wrong.

The smallest step is the one that still moves x: next to 1e8, numbers of float64 are 1.5e-8 apart, and x + h is x for
any h below half of that. A function that turns more often than that, or between all steps that were taken, looks like
noise: between two steps it does not run as a cubic polynomial through them. Then nothing is decided.
"""

from __future__ import annotations

from math import log2

import numpy as np

from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measured_slope import Slope
from minitransformer.testing.noise import COARSEST, scatter_of
from minitransformer.testing.steps import SAFETY, Loss, Step, best_slope

ROUNDINGS = 16.0
"""By how many roundings of x those inside L may change L, at its measured slope."""
RESOLVED = 64.0
"""What turns within this many of the smallest steps may look like noise."""
LOST = 20.0
"""By how many roundings of its terms, or of numbers beside 1, L scatters where nothing cancels inside it."""
STAIR = 4.0
"""By how many of its smallest changes L scatters where these are rounding."""
STAIRS = 4
"""How many neighbours of x on each side are compared to see whether L stands still from one to the next."""
TOO_SHORT = 12
"""With this power of the scatter falls the length within which a claim lets L turn although rounding may explain it."""


def settle(
    loss: Loss, steps: list[Step], claimed: float, tolerance: float, noise: float, eps: float, length: float
) -> Slope:
    """Return the best slope; if it contradicts the claim, only after a look between the points that it rests on.

    A claim that differs by d may be right although L scatters by more than rounding explains, if L turns within
    scatter / d, and so short a step moves nothing: then the error is infinite.
    """
    size, scatters = max(1.0, steps[0].rounding * steps[0].h / (8 * eps)), dict[float, float]()
    stairs = STAIR * noise
    while True:
        slope = best_slope(steps, SAFETY, noise)
        difference = abs(claimed - slope.value)
        if not slope.disagreement(claimed, tolerance) > tolerance:
            return slope
        if slope.h in scatters:
            scatter = scatters[slope.h]
            explained = max(eps * max(COARSEST * size, ROUNDINGS * length * abs(slope.value)), stairs)
            hidden = explained < scatter < RESOLVED * steps[-1].h * difference
            hidden = hidden or _turns_below(loss, scatter, claimed, slope.value, eps * size, eps * length)
            return slope._replace(error=float("inf")) if hidden else slope
        scatter = scatter_of(loss, slope.h, known=next(s.values for s in steps if s.h == slope.h))
        if eps > EPS:  # between stairs, a low precision stands still
            scatter = max(scatter, scatter_of(loss, 4 * slope.h))
        scatters[slope.h] = scatter
        noise = max(noise, scatter)


def _turns_below(loss: Loss, scatter: float, claimed: float, slope: float, rounding: float, spacing: float) -> bool:
    """Return whether L may turn between the steps that were taken, so that a claim which they contradict is right.

    With the claimed slope, L turns within scatter / difference. If that is less than the spacing of x, no step shows
    it, but L differs from each number x to the next; where most of these values are equal, L rounds a sum inside.
    Otherwise two steps in a row show the claimed slope, which noise does by a rare chance only.
    """
    difference, least = abs(claimed - slope), rounding + spacing * abs(slope)
    within = scatter / (4 * difference) if 0 < difference < np.inf else 0.0
    if not least < scatter < np.inf or not within:
        return False
    h, before = 2.0 ** round(log2(within)), False
    if h < spacing * min(1.0, scatter / (LOST * least)) ** TOO_SHORT:
        neighbours = [loss(n * spacing)[0] for n in range(-STAIRS, STAIRS + 1)]
        return int(np.count_nonzero(np.diff(neighbours))) > STAIRS
    while h >= spacing and rounding < h * difference / 3:
        agrees = abs((loss(h)[0] - loss(-h)[0]) / (2 * h) - claimed) <= difference / 3
        if agrees and (before or h < 2 * spacing):
            return True
        h, before = h / 2, agrees
    return False
