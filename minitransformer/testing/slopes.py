"""The derivative of a function of one number at 0, measured by finite differences with several steps.

The first step is about the best for a smooth function with a length scale of 1. Smaller ones follow until the errors
of ``steps`` are small beside the slope and the claimed slope agrees. A claim is called wrong only after a look at the
noise of the function (``noise``), at kinks (``kinks``) and between the steps (``between_steps``).

Functions of other precisions take the same measurement with their own ε: steps from ε^(1/5) down to about ε^(1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import numpy as np

from minitransformer.testing.between_steps import settle
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.kinks import find_kink, steps_closer
from minitransformer.testing.measured_slope import Slope
from minitransformer.testing.noise import scatter_of, smallest_change
from minitransformer.testing.steps import SAFETY, Loss, Step, best_slope, first_step, take_step

FAR = 100.0
"""A claim is refuted by two measurements that are this many times farther from it than from each other."""
SLOW, ALIKE = 0.1, 0.2
"""Changes of the slope fall slowly if they fall by less than this factor from step to step, where h falls to 1/16, and
by nearly the same one each time: two differ by at most this part."""
N_STEPS = 5
"""How many steps are tried, from the first one down to about the square root of ε."""
MOST_SMALLER = 8
"""How many smaller steps are tried in a low precision before a claim is called wrong."""


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

    Parameters
    ----------
    loss : callable
        ``loss(t) -> (L, size)``: the change from L(0), and the sum of the absolute values of the terms that may change;
        infinite if rounding hides the step t.
    step : float
        The first h, with few digits; it is made smaller until the measurement is good enough.
    claimed : float
        The claimed slope. It only decides how many steps are tried: all of them if it disagrees.
    tolerance : float
        The relative error that a good measurement stays below.
    smooth : bool
        Whether the function is known to have no narrow flank near 0, so that two steps can show that a claim is wrong.
    eps : float
        The precision in which L is computed; that of float64 by default.
    enough : int
        After this many steps, a good measurement ends the search even if the claim disagrees.
    noise_inside : callable
        Returns a noise of L that these steps may not show; called only before a claim is called wrong.

    Returns
    -------
    Slope
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
