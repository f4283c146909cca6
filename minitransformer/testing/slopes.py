"""The derivative of a function of one number at 0 by finite differences, with a bound on the error.

    D(h) = (L(h) - L(-h)) / 2h         =  L'(0) + O(h²)
    R(h) = (4 D(h/2) - D(h)) / 3       =  L'(0) + O(h⁴)          (Richardson's extrapolation)

Two errors meet in R: truncation, which grows with h, and rounding, about ε |L| / h with ε the machine's precision,
which falls with h. |R(h) - D(h/2)| bounds the first, the formula the second. Rounding inside L may be larger than the
rounding of its result; it shows in the fourth difference of the five values, which is only O(h⁴) for a smooth function:

    L(h) - 4 L(h/2) + 6 L(0) - 4 L(-h/2) + L(-h)

and if it is so coarse that all five may be equal, in the first change of L as h grows: log(1 + x) near x = 1e-9 rises
in steps of ε.

A kink shows in the slopes on both sides: their difference does not shrink with h, while that of a smooth function does.
At a kink every number between the two slopes is a subgradient. At a jump the slopes grow as h shrinks: there is no
gradient.

The smallest step is the one that still moves x: next to 1e8, numbers of float64 are 1.5e-8 apart, and x + h is x for
any h below half of that. A function that turns more often than that, or between all steps that were taken, looks like
noise: between two steps it does not run as a cubic polynomial through them. Then nothing is decided.

Functions of other precisions take the same measurement with their own ε: steps from ε^(1/5) down to about ε^(1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any, NamedTuple

import numpy as np

Loss = Callable[[float], tuple[float, float]]
"""``loss(t) -> (L, size)``: the value, and the sum of the absolute values of its terms."""
EPS = float(np.finfo(np.float64).eps)
STEP = EPS**0.2
"""The step at which R's truncation error h⁴ equals the rounding error ε/h, for a function with a length scale of 1."""
SAFETY = 4.0
FAR = 100.0
"""A claim is refuted by two measurements that are this many times farther from it than from each other."""
COARSEST = 2.0**16
"""The most that rounding inside L moves L by, beside terms of size 1, in units of ε."""
BETWEEN = np.array([-64, -32, 0, 32, 64, -53, -11, 29, 47]) / 64
"""Where L is compared with a cubic polynomial, in units of h: where a step knows it, and at other distances."""
ROUNDINGS = 16.0
"""By how many roundings of x those inside L may change L, at its measured slope."""
RESOLVED = 64.0
"""What turns within this many of the smallest steps may look like noise."""
LOST = 20.0
"""By how many roundings of its terms L scatters where nothing cancels inside it."""
STAIRS = 4
"""How many neighbours of x on each side are compared to see whether L stands still from one to the next."""
TOO_SHORT = 12
"""With this power of the scatter falls the length within which a claim lets L turn although rounding may explain it."""
POWERS = np.vander(BETWEEN, 4)
CUBIC = POWERS @ np.linalg.pinv(POWERS)
"""The matrix that replaces values at these points by those of the nearest cubic polynomial."""
CLOSEST = 2.0**10
"""A kink that is fewer roundings of the input away counts as one at the input."""
SAME = 0.25
"""At a kink, slopes of a side differ by less than this part of the change there; at a jump, the rises do."""
N_STEPS = 5
"""How many steps are tried, from the first one down to about the square root of ε."""
MOST_SMALLER = 8
"""How many smaller steps are tried in a low precision before a claim is called wrong."""


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

    def disagreement(self, claimed: float, tolerance: float) -> float:
        """Return the relative error of a claim: above the tolerance it is wrong; infinite if it is not finite."""
        if not np.isfinite(claimed) or not np.isfinite(self.value):
            return float("inf")
        if self.sides is None:
            return float(relative_error(claimed, self.value, self.error / tolerance))
        low, high = self.sides
        outside = max(low - claimed, claimed - high, 0.0)
        return outside / max(abs(low), abs(high), abs(claimed), self.error / tolerance)


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
    """L(-h), L(-h/2), L(0), L(h/2) and L(h)."""

    @property
    def jump(self) -> float:
        """The difference of the slopes on both sides."""
        return abs(self.right - self.left)

    @property
    def looks_smooth(self) -> bool:
        """Whether the slopes on both sides agree within the error of this step."""
        return self.jump <= 64 * self.rounding + 0.05 * abs(self.slope)


def relative_error(a: Any, b: Any, floor: Any = 0.0) -> Any:
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


def measure(
    loss: Loss,
    middle: float,
    step: float,
    claimed: float,
    tolerance: float,
    smooth: bool = False,
    eps: float = EPS,
    enough: int = N_STEPS,
) -> Slope:
    """Measure the slope of a function of one number at 0, with the best step.

    Parameters
    ----------
    loss : callable
        ``loss(t) -> (L, size)``: the value, and the sum of the absolute values of its terms; infinite if rounding
        hides the step t.
    middle : float
        L(0), which is the same whatever is moved.
    step : float
        The first h; it is made smaller until the measurement is good enough.
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

    Returns
    -------
    Slope
    """
    step = 2.0 ** round(log2(step))  # sums with powers of two are rarely rounded, so the actual step is h
    steps: list[Step] = []
    shrink = 2.0 ** -max(1, round(0.075 * -log2(eps)))  # 1/16 in float64, 1/4 in float32, 1/2 in float16
    for n in range(N_STEPS):
        taken = take_step(loss, middle, step * shrink**n, eps)
        if steps and taken.rounding == np.inf:
            break
        steps.append(taken)
        result = _best(steps)
        # A verdict needs an error well below the slope, or below the resolution that rounding leaves.
        precise = result.error <= max(tolerance * abs(result.value), 2 * steps[-1].rounding)
        agrees = result.disagreement(claimed, tolerance) <= tolerance
        if precise and steps[-1].looks_smooth and (agrees or enough <= n + 1 < N_STEPS):
            return result
        cautious = _best(steps, SAFETY)
        if smooth and _refute(steps, claimed) and cautious.disagreement(claimed, tolerance) > tolerance:
            return cautious
    # Before a claim is called wrong: errors may look small by chance, so try a few more steps and widen the bound.
    more = [take_step(loss, middle, steps[-1].h * part, eps) for part in (7 / 8, 6 / 8, 5 / 8)]
    if eps > EPS:
        more += _smaller(loss, middle, steps[-1].h * shrink, claimed - result.value, eps)
    elif result.error < abs(claimed - result.value):
        more += _smaller(loss, middle, steps[-1].h / 64, claimed - result.value, eps, 1 / 64)
    quantum = _quantum(loss, step, eps)
    if quantum and eps > EPS:
        quantum = max(quantum, _scatter(loss, 8 * step * eps**0.8))
    kink = _kink(steps, quantum)
    closer = _closer(loss, middle, steps, quantum, eps, kink)
    found = kink or _kink(steps, quantum)
    if closer is None and found and np.isinf(found.value):  # noise in L(0) looks like a jump at 0
        quantum = max(
            quantum, _scatter(loss, steps[-1].h / 4, steps[-1].h), _scatter(loss, steps[-1].h / 4, -steps[-1].h)
        )
        found = _kink(steps, quantum)
    if closer is None and found:
        return found
    steps += more + (closer or [])
    steps = sorted((s for s in steps if s.rounding != np.inf), key=lambda step: -step.h) or steps
    return _settle(loss, steps, claimed, tolerance, quantum, eps, step / first_step(eps))


def glance(loss: Loss, middle: float, h: float) -> tuple[Slope, bool]:
    """Return D(h), with the bound on its rounding error alone, and whether the slopes on both sides agree."""
    h = 2.0 ** round(log2(h))
    (high, size), (low, _) = loss(h), loss(-h)
    slope = Slope((high - low) / (2 * h), 8 * EPS * size / h, h=h)
    jump = abs(high - 2 * middle + low) / h
    return slope, jump <= 64 * slope.error + 1e-3 * abs(slope.value)


def first_step(eps: float) -> float:
    """Return the step at which R's truncation error h⁴ equals the rounding error ε/h."""
    return float(eps**0.2)


def take_step(loss: Loss, middle: float, h: float, eps: float = EPS) -> Step:
    """Take one step to both sides."""
    (high, size), (low, _), (high2, _), (low2, _) = (loss(t) for t in (h, -h, h / 2, -h / 2))
    coarse, fine = (high - low) / (2 * h), (high2 - low2) / h
    slope = (4 * fine - coarse) / 3
    noise = abs(high - 4 * high2 + 6 * middle - 4 * low2 + low)
    left, right = (middle - low2) / (h / 2), (high2 - middle) / (h / 2)
    return Step(
        h, coarse, slope, abs(slope - fine), 8 * eps * size / h, noise, left, right, (low, low2, middle, high2, high)
    )


def _smaller(loss: Loss, middle: float, h: float, difference: float, eps: float, shrink: float = 1 / 4) -> list[Step]:
    """Take smaller steps while rounding stays well below a difference.

    In a low precision the first steps are so large that a function may oscillate between them; in float64 they may be
    longer than a narrow steep part.
    """
    steps: list[Step] = []
    while len(steps) < MOST_SMALLER:
        step = take_step(loss, middle, h, eps)
        if not 16 * step.rounding <= abs(difference):
            break
        steps.append(step)
        h *= shrink
    return steps


def _refute(steps: list[Step], claimed: float) -> bool:
    """Return whether the last two steps agree far better with each other than with the claim.

    If L does not change at all, rounding may hide the slope, so nothing is refuted.
    """
    if len(steps) < 2 or not steps[-1].slope:
        return False
    before, last = steps[-2:]
    return FAR * abs(last.slope - before.slope) < abs(claimed - last.slope)


def _quantum(loss: Loss, step: float, eps: float) -> float:
    """Return the smallest change that L shows up to this step, if rounding explains it: it is the noise in L."""
    farthest = 0 if eps <= EPS else 8  # a low precision hides changes at larger steps
    for h in (step * 2.0**n for n in range(-40, farthest + 1)):
        (high, size), (low, _) = loss(h), loss(-h)
        if high != low:
            change = abs(high - low)
            small = change <= COARSEST * eps * max(1.0, size)
            if h > step and not small:
                break
            # A large change is a jump of L itself; in a low precision only if it is at x, not a short way off.
            return change if small or (eps > EPS and h > 4 * eps**0.8 * step) else 0.0
    return 4 * eps  # no change at all: among terms of size 1 it would be invisible


def _scatter(loss: Loss, h: float, middle: float = 0.0, known: tuple[float, ...] = ()) -> float:
    """Return how far L scatters about a cubic polynomial within h of the middle: rounding inside L, or missed turns."""
    values = np.array([*known, *(loss(middle + h * float(t))[0] for t in BETWEEN[len(known) :])])
    return float(2 * np.abs(values - CUBIC @ values).max()) if np.isfinite(values).all() else 0.0


def _settle(
    loss: Loss, steps: list[Step], claimed: float, tolerance: float, noise: float, eps: float, length: float
) -> Slope:
    """Return the best slope; if it contradicts the claim, only after a look between the points that it rests on.

    A claim that differs by d may be right although L scatters by more than rounding explains, if L turns within
    scatter / d, and so short a step moves nothing: then the error is infinite.
    """
    size, scatters = steps[0].rounding * steps[0].h / (8 * eps), dict[float, float]()
    while True:
        slope = _best(steps, SAFETY, noise)
        difference = abs(claimed - slope.value)
        if not slope.disagreement(claimed, tolerance) > tolerance:
            return slope
        if slope.h in scatters:
            scatter = scatters[slope.h]
            explained = eps * max(COARSEST * size, ROUNDINGS * length * abs(slope.value))
            hidden = explained < scatter < RESOLVED * steps[-1].h * difference
            hidden = hidden or _turns_below(loss, scatter, claimed, slope.value, eps * size, eps * length)
            return slope._replace(error=float("inf")) if hidden else slope
        scatter = _scatter(loss, slope.h, known=next(s.values for s in steps if s.h == slope.h))
        if eps > EPS:  # between stairs, a low precision stands still
            scatter = max(scatter, _scatter(loss, 4 * slope.h))
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


def _best(steps: list[Step], safety: float = 1.0, noise: float = 0.0) -> Slope:
    """Return the slope of the step with the smallest error; noise is a lower bound of the errors."""
    found = []
    for s in reversed(steps):
        # Rounding noise does not fall with h as truncation does, so a smaller step reveals the noise in a larger one.
        noise = max(noise, s.noise)
        found.append(Slope(s.slope, safety * (s.truncation + noise / s.h) + s.rounding, h=s.h))
    # A larger step that contradicts a smaller one has missed a detail, such as a narrow steep part.
    trusted: list[Slope] = []
    for slope in found:
        if all(abs(slope.value - other.value) <= slope.error + other.error for other in trusted):
            trusted.append(slope)
    return min(trusted, key=lambda slope: slope.error)


def _kink(steps: list[Step], noise: float) -> Slope | None:
    """Return the slopes at a kink or jump, if the smallest steps above the rounding noise agree on one."""
    steps = [s._replace(rounding=s.rounding + noise / s.h) for s in steps]
    clear = [s for s in steps if 1e3 * s.rounding < max(abs(s.left), abs(s.right))][-3:]
    if len(clear) < 3 or any(s.jump <= 64 * s.rounding + 1e-6 * (abs(s.left) + abs(s.right)) for s in clear):
        return None
    last = clear[-1]
    if all(max(abs(s.left - last.left), abs(s.right - last.right)) < SAME * last.jump for s in clear):
        sides = min(last.left, last.right), max(last.left, last.right)
        return Slope(last.slope, last.rounding, sides)  # the kink itself causes the other signs of an error
    rises = [(s.left * s.h, s.right * s.h) for s in clear]
    if all(
        max(abs(left - rises[-1][0]), abs(right - rises[-1][1])) < SAME * last.jump * last.h for left, right in rises
    ):
        return Slope(float("inf"), 0.0)
    return None


def _closer(
    loss: Loss, middle: float, steps: list[Step], noise: float, eps: float, kink: Slope | None
) -> list[Step] | None:
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
        smaller = take_step(loss, middle, last.h / 16, eps)
        if last.jump <= small:
            return [smaller]
        if smaller.h < least:
            return None
        steps.append(smaller)
