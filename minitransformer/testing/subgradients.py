"""Whether a gradient at several kinks is a subgradient as a whole, and not only entry by entry.

For |x - y| at x = y each entry of the gradient may be any number from -1 to 1, but only together with the opposite
number in the other entry. A subgradient is an average of gradients at points nearby, where there is no kink, so it lies
in the smallest plane that holds these gradients. They are measured at points to which each entry in turn moves the
farthest, up and down. A few entries with a kink move alone, all others together.

Where three or more smooth pieces of a function meet, the slopes along an entry need not bound that entry of a
subgradient. The median of three equal numbers does not change if one of them moves, but its gradient at each point
nearby is 1 in one entry. Then the slopes at points nearby are the bounds: the steepest piece on a line along the entry
is found by halving.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import entry_scales
from minitransformer.testing.input_report import InputReport
from minitransformer.testing.slopes import EPS, measure

ALONE = 8
"""How many entries with a kink move alone."""
ROUNDS = 4
"""How many times more points are drawn before a gradient is no subgradient."""
NEARBY, STEP, FIRST = 2.0**-12, 2.0**-26, 2.0**-10
"""How far away the points are, the step at them, and the longest step at the inputs; relative to the inputs."""
LINES, SPAN, PLACES, HALVINGS = 16, 0.75, 17, 9
"""On how many lines the steepest piece is searched, how far they reach, at how many places, and how often the steepest
interval is halved."""
FLAT, OUTSIDE, BEYOND = 1e-3, 0.05, 0.25
"""Gradients that vary by less do not vary, and a gradient farther outside is none; relative to the largest. The third
is how much steeper than the steepest known piece another may be, relative to what that adds to the slope at the inputs.
"""


def is_subgradient(claim: Claim, compared: Mapping[int, InputReport]) -> bool:
    """Return whether a gradient that lies between the slopes at each kink may be a subgradient."""
    if claim.eps > EPS:  # too few digits for gradients of points nearby
        return True
    kinks = [(index, i) for i, record in compared.items() for index in record.kinks]
    kinks.sort(key=lambda kink: (np.ravel_multi_index(kink[0], compared[kink[1]].shape) if kink[0] else 0, kink[1]))
    if len(kinks) < 2:
        return True
    scales = {i: _scales(claim, i) for i in {i for _, i in kinks}}
    directions = [_direction(kink, scales) for kink in kinks[:ALONE]]
    directions.append({i: scale - sum(v[i] for v in directions) for i, scale in scales.items()})
    found = np.array([sum(float((claim.gradients[i] * v[i]).sum()) for i in v) for v in directions])
    nearby: list[Array] = []
    for _ in range(ROUNDS):
        for v in directions:
            for sign in (1, -1):
                shift = {i: draw_cotangent(claim.rng, scale.shape) * scale / 4 for i, scale in scales.items()}
                start = _moved(claim.case.inputs, {i: shift[i] + sign * v[i] for i in shift}, NEARBY)
                nearby.append(np.array([_slope(claim, start, w) for w in directions]))
        gradients = np.array(nearby)
        if not np.isfinite(gradients).all():
            return True
        middle, size = gradients.mean(axis=0), np.abs(gradients).max()
        _, spread, axes = np.linalg.svd(gradients - middle)
        varied = axes[: np.count_nonzero(spread > FLAT * size)]
        outside = found - middle
        outside -= varied.T @ (varied @ outside)
        if np.abs(outside).max() <= OUTSIDE * size:
            return True
    return False


def is_excused(claim: Claim, compared: Mapping[int, InputReport]) -> bool:
    """Return whether a gradient that lies outside the slopes along single entries may still be a subgradient.

    First, the slope along a random direction must differ from the sum over the entries: the function is not
    differentiable. Second, slopes at points nearby must reach the claim, along each wrong entry and along the direction
    in which all entries move.
    """
    wrong = {i: record for i, record in compared.items() if record.wrong}
    if claim.eps > EPS or not all(record.wrong_entries for record in wrong.values()) or _is_linear(claim, compared):
        return False
    scales = {i: _scales(claim, i) for i in compared}
    for i, record in wrong.items():
        for index, sides in list(record.wrong_entries.items())[:ALONE]:
            sign = 1 if claim.gradients[i][index] > sides[1] else -1
            entry = _direction((index, i), scales)
            found, bound = (sign * scales[i][index] * x for x in (claim.gradients[i][index], sides[sign > 0]))
            reached = _steepest(claim, scales, entry, sign, found)
            if not reached - bound > FLAT * abs(reached) or not found <= reached + BEYOND * (reached - bound):
                return False
    along = sum(float((claim.gradients[i] * scale).sum()) for i, scale in scales.items())
    low, high = (sign * _steepest(claim, scales, scales, sign, sign * along) for sign in (-1, 1))
    return abs(along - (low + high) / 2) <= (0.5 + BEYOND) * (high - low) + FLAT * max(abs(low), abs(high))


def _is_linear(claim: Claim, compared: Mapping[int, InputReport]) -> bool:
    """Return whether the slope along a random direction is the sum of those along the entries."""
    direction, terms = {}, [0.0]
    for i, record in compared.items():
        differences = np.where(np.isfinite(record.differences), record.differences, 0)
        v = draw_cotangent(claim.rng, record.shape) * _scales(claim, i)
        direction[i] = v * np.isfinite(record.differences)
        terms += (differences * v).ravel().tolist()
    loss = claim.case.loss(direction, claim.d_output.astype(np.float64), claim.middle, claim.eps)
    expected = float(np.sum(terms))
    slope = measure(loss, claim.middle, FIRST, expected, FLAT)
    return slope.sides is None and not abs(slope.value - expected) > FLAT * float(np.abs(terms).sum()) + slope.error


def _steepest(
    claim: Claim, scales: Mapping[int, Array], direction: Mapping[int, Array], sign: int, enough: float
) -> float:
    """Return the largest slope of L, times the sign, on lines along a direction near the inputs, or one that is enough.

    The share of entries that move down grows from line to line, so the entry of the direction takes every rank.
    """
    steepest = -np.inf
    for below in (np.arange(LINES) + 0.5) / LINES:
        shift = {i: draw_cotangent(claim.rng, scale.shape) for i, scale in scales.items()}
        shift = {
            i: np.where(claim.rng.uniform(size=s.shape) < below, -1, 1) * np.abs(s) * scales[i] / 4
            for i, s in shift.items()
        }
        if sum(np.count_nonzero(v) for v in direction.values()) == 1:
            shift = {i: s * (direction[i] == 0) for i, s in shift.items()}  # the entry passes all the others
        start = _moved(claim.case.inputs, shift, NEARBY)

        def loss(t: float, start: list[Array] = start) -> float:
            with np.errstate(all="ignore"):
                value = claim.case.value(_moved(start, direction, t * NEARBY))
            return sign * float((claim.d_output * value).sum())

        places = np.linspace(-SPAN, SPAN, PLACES)
        values = [loss(t) for t in places]
        best = int(np.diff(values).argmax())
        (low, high), (first, second) = places[best : best + 2], values[best : best + 2]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            between = loss(middle)
            if between - first > second - between:
                high, second = middle, between
            else:
                low, first = middle, between
        steepest = max(steepest, (second - first) / ((high - low) * NEARBY))
        if steepest >= enough:
            break
    return steepest


def _scales(claim: Claim, i: int) -> Array:
    finite = np.isfinite(claim.case.inputs[i])
    return entry_scales(claim.case.sizes(i), np.flatnonzero(finite)) * finite


def _direction(kink: tuple[tuple[int, ...], int], scales: Mapping[int, Array]) -> dict[int, Array]:
    """Return the direction in which one entry moves by its size."""
    (index, moving), direction = kink, {i: np.zeros(scale.shape) for i, scale in scales.items()}
    direction[moving][index] = scales[moving][index]
    return direction


def _moved(inputs: list[Array], direction: Mapping[int, Array], t: float) -> list[Array]:
    return [x + t * direction[i] if i in direction else x for i, x in enumerate(inputs)]


def _slope(claim: Claim, inputs: list[Array], direction: Mapping[int, Array]) -> float:
    """Return the slope of L along a direction at some inputs."""
    with np.errstate(all="ignore"):
        low, high = (claim.case.value(_moved(inputs, direction, t)) for t in (-STEP, STEP))
    return float((claim.d_output * (high - low)).sum()) / (2 * STEP)
