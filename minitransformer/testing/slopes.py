"""The derivative of a function of one number at 0, measured by finite differences with several steps.

The first step is about the best for a smooth function with a length scale of 1. Smaller ones follow until the errors
of ``steps`` are small beside the slope and the claimed slope agrees. Functions of other precisions take the same
measurement with their own ε: steps from ε^(1/5) down to about ε^(1/2).

A claim is called wrong only after a look at three things:

- the noise of the function (``steps``);
- kinks: the slopes on both sides differ, and their difference does not shrink with h as that of a smooth function.
  Every number between them is a subgradient. At a jump the slopes grow as h shrinks: there is no gradient;
- what lies between the steps. The smallest one is that which still moves x: next to 1e8, numbers of float64 are 1.5e-8
  apart, and x + h is x for any h below half of that. A function that turns more often looks like noise: between two
  steps it does not run as a cubic polynomial through them. Then nothing is decided.

Next: ``comparison.py``, which measures all entries.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import numpy as np

from minitransformer.testing.dtypes import EPS
from minitransformer.testing.steps import (
    COARSEST,
    SAFETY,
    Loss,
    Slope,
    Step,
    best_slope,
    first_step,
    scatter_of,
    smallest_change,
    take_step,
)

FAR = 100.0
"""A claim is refuted by two measurements that are this many times farther from it than from each other."""
SLOW, ALIKE = 0.1, 0.2
"""Changes of the slope fall slowly if they fall by less than this factor from step to step, where h falls to 1/16, and
by nearly the same one each time: two differ by at most this part."""
N_STEPS = 5
"""How many steps are tried, from the first one down to about the square root of ε."""
MOST_SMALLER = 8
"""How many smaller steps are tried in a low precision before a claim is called wrong."""
CLOSEST = 2.0**10
"""A kink that is fewer roundings of the input away counts as one at the input."""
ALIKE_SIDES = 0.25
"""At a kink, slopes of a side differ by less than this part of the change there; at a jump, the rises do."""
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


def measure(
    loss: Loss,
    step: float,
    claimed: float,
    tolerance: float,
    smooth: bool = False,
    eps: float = EPS,
    enough: int = N_STEPS,
    noise_inside: Callable[[], float] = lambda: 0.0,
) -> Slope:
    """Measure the slope of a function of one number at 0, with the best step.

    The first ``step`` has few digits; it is made smaller until the error is below the ``tolerance`` and the claim
    agrees. After ``enough`` steps a good measurement ends the search even if it does not. If the function is known to
    be ``smooth``, with no narrow flank near 0, two steps can show that a claim is wrong. ``noise_inside`` returns a
    noise of L that these steps may not show; it is called only before a claim is called wrong.
    """
    steps: list[Step] = []
    shrink = 2.0 ** -max(1, round(0.075 * -log2(eps)))  # 1/16 in float64, 1/4 in float32, 1/2 in float16
    for n in range(N_STEPS):
        taken = take_step(loss, step * shrink**n, eps)
        if steps and taken.rounding == np.inf:
            break
        steps.append(taken)
        result = best_slope(steps)
        # A verdict needs an error well below the slope, or below the resolution that rounding leaves.
        precise = result.error <= max(tolerance * abs(result.value), 2 * steps[-1].rounding)
        agrees = result.disagreement(claimed, tolerance) <= tolerance
        if precise and steps[-1].looks_smooth and (agrees or enough <= n + 1 < N_STEPS):
            return result
        cautious = best_slope(steps, SAFETY)
        if smooth and _refute(steps, claimed) and cautious.disagreement(claimed, tolerance) > tolerance:
            return cautious
    # Before a claim is called wrong: errors may look small by chance, so try a few more steps and widen the bound.
    slow = _still_to_come(steps)
    more = [take_step(loss, steps[-1].h * part, eps) for part in (7 / 8, 6 / 8, 5 / 8)]
    if eps > EPS:
        more += _smaller(loss, steps[-1].h * shrink, claimed - result.value, eps)
    elif result.error < abs(claimed - result.value):
        more += _smaller(loss, steps[-1].h / 64, claimed - result.value, eps, 1 / 64)
    quantum = max(smallest_change(loss, step, eps), noise_inside())
    if quantum and eps > EPS:
        quantum = max(quantum, scatter_of(loss, 8 * step * eps**0.8))
    kink = find_kink(steps, quantum)
    closer = steps_closer(loss, steps, quantum, eps, kink)
    found = kink or find_kink(steps, quantum)
    if closer is None and found and np.isinf(found.value):  # noise in L(0) looks like a jump at 0
        h = steps[-1].h
        quantum = max(quantum, scatter_of(loss, h / 4, h), scatter_of(loss, h / 4, -h))
        found = find_kink(steps, quantum)
    if closer is None and found:
        return found
    steps += more + (closer or [])
    steps = sorted((s for s in steps if s.rounding != np.inf), key=lambda step: -step.h) or steps
    steps = [s._replace(truncation=s.truncation + slow) for s in steps] if slow else steps
    return settle(loss, steps, claimed, tolerance, quantum, eps, step / first_step(eps))


def _smaller(loss: Loss, h: float, difference: float, eps: float, shrink: float = 1 / 4) -> list[Step]:
    """Take smaller steps while rounding stays well below a difference.

    In a low precision the first steps are so large that a function may oscillate between them; in float64 they may be
    longer than a narrow steep part.
    """
    steps: list[Step] = []
    while len(steps) < MOST_SMALLER:
        step = take_step(loss, h, eps)
        if not 16 * step.rounding <= abs(difference):
            break
        steps.append(step)
        h *= shrink
    return steps


def _still_to_come(steps: list[Step]) -> float:
    """Return how far slopes still move that approach their limit as a small power of h; 0 if they approach it faster.

    Those of sign(x) |x|^1.1 at 0 fall as h^0.1. The changes of such slopes from step to step fall by one factor, so
    what is still to come is a geometric series.
    """
    if len(steps) < 4:
        return 0.0
    slopes = np.array([s.slope for s in steps[-4:]])
    first, second, third = np.diff(slopes)
    ratios = second / first if first else 0.0, third / second if second else 0.0
    if not (min(ratios) > SLOW and max(ratios) < 1 and abs(ratios[0] - ratios[1]) < ALIKE * max(ratios)):
        return 0.0
    return float(2 * abs(third) * ratios[1] / (1 - ratios[1]))


def _refute(steps: list[Step], claimed: float) -> bool:
    """Return whether the last two steps agree far better with each other than with the claim.

    If L does not change at all, rounding may hide the slope, so nothing is refuted.
    """
    if len(steps) < 2 or not steps[-1].slope:
        return False
    before, last = steps[-2:]
    return FAR * abs(last.slope - before.slope) < abs(claimed - last.slope)


def find_kink(steps: list[Step], noise: float) -> Slope | None:
    """Return the slopes at a kink or jump, if the smallest steps above the rounding noise agree on one."""
    steps = [s._replace(rounding=s.rounding + noise / s.h) for s in steps]
    clear = [s for s in steps if 1e3 * s.rounding < max(abs(s.left), abs(s.right))][-3:]
    if len(clear) < 3 or any(s.jump <= 64 * s.rounding + 1e-6 * (abs(s.left) + abs(s.right)) for s in clear):
        return None
    last, slopes = clear[-1], [(s.left, s.right) for s in clear]
    if _agree(slopes):
        sides = min(slopes[-1]), max(slopes[-1])
        return Slope(last.slope, last.rounding, sides)  # the kink itself causes the other signs of an error
    return Slope(float("inf"), 0.0) if _agree([(s.left * s.h, s.right * s.h) for s in clear]) else None


def _agree(pairs: list[tuple[float, float]]) -> bool:
    """Return whether the numbers of each side differ far less than the two sides of the last pair."""
    (left, right), most = pairs[-1], ALIKE_SIDES * abs(pairs[-1][1] - pairs[-1][0])
    return all(abs(one - left) < most and abs(other - right) < most for one, other in pairs)


def steps_closer(loss: Loss, steps: list[Step], noise: float, eps: float, kink: Slope | None) -> list[Step] | None:
    """Return steps too small to reach a kink or jump near x; None if it is at x, as far as rounding shows.

    Steps that reach it are appended to the others.
    """
    least = steps[0].h * CLOSEST * eps / first_step(eps)
    while True:
        last = steps[-1]
        size = abs(last.left) + abs(last.right)
        if kink is None:
            small = 1e-3 * size
        else:
            small = 0.5 * (kink.sides[1] - kink.sides[0] if kink.sides else max(s.jump for s in steps))
        if 128 * (last.rounding + noise / last.h) >= max(small, last.jump):
            return None
        if kink is None and last.jump <= small:
            return []
        smaller = take_step(loss, last.h / 16, eps)
        if last.jump <= small:
            return [smaller]
        if smaller.h < least:
            return None
        steps.append(smaller)


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
