"""Kinks and jumps: the slopes on both sides of an input, and whether a kink is at the input or only near it.

A kink shows in the slopes on both sides: their difference does not shrink with h, while that of a smooth function does.
At a kink every number between the two slopes is a subgradient. At a jump the slopes grow as h shrinks: there is no
gradient.
"""

from __future__ import annotations

from minitransformer.testing.measured_slope import Slope
from minitransformer.testing.steps import Loss, Step, first_step, take_step

CLOSEST = 2.0**10
"""A kink that is fewer roundings of the input away counts as one at the input."""
SAME = 0.25
"""At a kink, slopes of a side differ by less than this part of the change there; at a jump, the rises do."""


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
    (left, right), most = pairs[-1], SAME * abs(pairs[-1][1] - pairs[-1][0])
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
