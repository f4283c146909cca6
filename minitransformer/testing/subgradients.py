"""Whether a gradient at several kinks is a subgradient as a whole, and not only entry by entry.

For |x - y| at x = y each entry of the gradient may be any number from -1 to 1, but only together with the opposite
number in the other entry. A subgradient is an average of gradients at points nearby, where there is no kink, so it lies
in the smallest plane that holds these gradients. They are measured at points to which each entry in turn moves the
farthest, up and down. A few entries with a kink move alone, all others together.

Where three or more smooth pieces of a function meet, the slopes along an entry need not bound that entry of a
subgradient. The median of three equal numbers does not change if one of them moves, but its gradient at each point
nearby is 1 in one entry. Then the slopes at points nearby are the bounds: the steepest piece on a line along the entry
is found by halving.

A subgradient g rises along no direction v faster than the function does nearby: g · v is at most the steepest slope
along v. The direction g itself shows that (1, 1, 1) is no subgradient of the norm at 0, although each entry lies
between the slopes on both sides. The slope of each entry of the output is bounded on its own, since one may bend up
where another bends down.

Where three or more smooth pieces of a function meet, slopes along single entries may also agree with a gradient that is
none: 0 for the median of three equal numbers, which moves with all three. A slope along a random direction is then not
the sum of those along the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measurement import Measurement
from minitransformer.testing.report import InputReport
from minitransformer.testing.slopes import measure

SINGLE_PROCESS = 8
"""How many entries move alone, those with a kink first."""
ROUNDS = 4
"""How many times more points are drawn before a gradient is no subgradient."""
NEARBY, STEP, FIRST = 2.0**-12, 2.0**-26, 2.0**-10
"""How far away the points are, the step at them, and the longest step at the inputs; relative to the inputs."""
CLOSE, MOST_GROUPS = 2.0**-20, 32
"""The step from the inputs to each side, and how many entries or rows move down in turn."""
LINES, SPAN, PLACES, HALVINGS = 16, 0.75, 17, 9
"""On how many lines the steepest piece is searched, how far they reach, at how many places, and how often the steepest
interval is halved."""
FLAT, OUTSIDE, BEYOND = 1e-3, 0.05, 0.25
"""Gradients that vary by less do not vary, and a gradient farther outside is none; relative to the largest. The third
is how much steeper than the steepest known piece another may be, relative to what that adds to the slope at the inputs.
"""


def judge_ties(claim: Measurement, compared: Mapping[int, InputReport]) -> tuple[Literal["", "wrong", "kink"], str]:
    """Return what the points nearby say about a gradient, with the cause; nothing if no smooth pieces meet here.

    The verdict is "wrong" if the gradient is no subgradient, although rounding of tied inputs explains wrong entries,
    or there are none. It is "kink" if the gradient may be one: then inputs with wrong entries become ``excused``.
    """
    records = list(compared.values())
    if claim.eps > EPS or any(r.resolution == np.inf for r in records):  # too few digits for gradients nearby
        return "", ""
    wrong, kinks = ([r for r in records if r.wrong], [r for r in records if r.kinks])
    off = {i: r.wrong_entries if kinks or wrong else _off(claim.gradients[i], r) for i, r in compared.items()}
    moved = sum(int(np.isfinite(r.differences).sum()) for r in records)
    if (wrong or not kinks) and (moved < 2 or claim.smooth or _is_linear(claim, compared)):
        return "", ""
    if wrong or any(off.values()):
        excused = all(off[i] for i, r in compared.items() if r.wrong) and _is_excused(claim, compared, off)
        if not excused:
            return ("", "") if wrong else ("wrong", "the gradient is none of those nearby, where no inputs are tied")
        for i in compared:
            compared[i].excused = bool(off[i])
        return "kink", (
            f"more than two smooth pieces of the function meet at {_list(compared[i] for i in off if off[i])}, so "
            "slopes along single entries do not bound the gradient, and the claimed one may belong to a piece; give "
            "inputs without ties"
        )
    is_one, varies, outside = _is_subgradient(claim, compared)
    if not is_one or (kinks and _is_too_steep(claim, compared, outside)):
        where = f"at the kinks of {_list(kinks)} each entry lies" if kinks else "each entry lies"
        return "wrong", (
            f"{where} between the slopes on both sides, but together they are no average of the gradients nearby: a "
            "change along which the function has no kink shows it"
        )
    if kinks:
        return "kink", (
            f"at {kinks[0].name}{list(kinks[0].kinks[0]) or ''} the slopes on both sides differ, and the gradient lies "
            'between them; kinks="accept" accepts that'
        )
    return "kink" if varies else "", (
        f"smooth pieces of the function meet at {_list(records)}, although no entry alone shows it, and the gradient "
        'is an average of theirs; kinks="accept" accepts that'
    )


def _off(gradient: Array, record: InputReport) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return the entries that differ from their slopes, whatever rounding explains, with the slopes; not the kinks."""
    known = np.isfinite(record.differences)
    difference = np.abs(np.where(known, gradient - record.differences, 0))
    places = (tuple(map(int, index)) for index in np.argwhere(difference > FLAT * record.largest))
    return {index: (record.differences[index],) * 2 for index in places if index not in record.kinks}


def _list(records: Iterable[InputReport]) -> str:
    return " and ".join(record.name for record in records)


def _is_subgradient(claim: Measurement, compared: Mapping[int, InputReport]) -> tuple[bool, bool, dict[int, Array]]:
    """Return whether a gradient that agrees with the slopes along entries may be one, and if those nearby vary.

    The last is the direction in which the gradient lies outside the plane of those nearby.
    """
    scales = {i: _scales(claim, i, record) for i, record in compared.items()}
    kinks = [(index, i) for i, record in compared.items() for index in record.kinks]
    kinks.sort(key=lambda kink: (np.ravel_multi_index(kink[0], compared[kink[1]].shape) if kink[0] else 0, kink[1]))
    others = [(index, i) for i in compared for index in np.ndindex(compared[i].shape) if scales[i][index]]
    if len(others) < 2:
        return True, False, {}
    alone = list(dict.fromkeys([*kinks, *others]))[:SINGLE_PROCESS]
    directions = [_direction(kink, scales) for kink in alone]
    directions.append({i: scale - sum(v[i] for v in directions) for i, scale in scales.items()})
    directions = [v for v in directions if any(part.any() for part in v.values())]
    found = np.array([_along(claim, v) for v in directions])
    nearby: list[Array] = []
    for _ in range(ROUNDS):
        for v in directions:
            for sign in (1, -1):
                shift = {i: draw_cotangent(claim.rng, scale.shape) * scale / 4 for i, scale in scales.items()}
                start = _moved(claim.case.inputs, {i: shift[i] + sign * v[i] for i in shift}, NEARBY)
                nearby.append(np.array([_slope(claim, start, w) for w in directions]))
        gradients = np.array(nearby)
        if not np.isfinite(gradients).all():
            return True, False, {}
        middle, size = gradients.mean(axis=0), np.abs(gradients).max()
        _, spread, axes = np.linalg.svd(gradients - middle)
        varied = axes[: np.count_nonzero(spread > FLAT * size)]
        outside = found - middle
        outside -= varied.T @ (varied @ outside)
        if np.abs(outside).max() <= OUTSIDE * size:
            pairs = list(zip(outside, directions, strict=True))
            return True, bool(varied.size), {i: np.sum([w * v[i] for w, v in pairs], axis=0) for i in scales}
    return False, True, {}


def _is_too_steep(claim: Measurement, compared: Mapping[int, InputReport], outside: Mapping[int, Array]) -> bool:
    """Return whether a gradient at kinks rises faster along some direction than the function does nearby.

    The directions are the gradient itself at all kinks and at those of each input, and ``outside``.
    """
    scales = {i: _scales(claim, i, record) for i, record in compared.items()}
    at_kinks = {i: np.zeros(scale.shape) for i, scale in scales.items()}
    for i, record in compared.items():
        for index in record.kinks:
            at_kinks[i][index] = claim.gradients[i][index] * scales[i][index] ** 2
    alone = [{j: v * (j == i) for j, v in at_kinks.items()} for i in at_kinks]
    for direction in [at_kinks, *(alone if len(alone) > 1 else []), outside]:
        lengths = [np.abs(v / np.where(scales[i], scales[i], 1)).max(initial=0.0) for i, v in direction.items()]
        length = max(lengths, default=0.0)
        if not 0 < length < np.inf:
            continue
        v = {i: part / length for i, part in direction.items()}
        size = sum(float(np.abs(claim.gradients[i] * part).sum()) for i, part in v.items())
        if _along(claim, v) > _steepest_nearby(claim, scales, v) + OUTSIDE * size:
            return True
    return False


def _steepest_nearby(claim: Measurement, scales: Mapping[int, Array], direction: Mapping[int, Array]) -> float:
    """Return a bound on the slopes of L along a direction near the inputs: the sum of those of the entries of y."""
    inputs, weights = claim.case.inputs, claim.d_output.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        low, here, high = (claim.case.value(_moved(inputs, direction, t)).reshape(-1) for t in (-CLOSE, 0.0, CLOSE))
    steepest = np.maximum(weights * (high - here), weights * (here - low)) / CLOSE

    def try_point(shift: Mapping[int, Array]) -> float:
        nonlocal steepest
        start = _moved(inputs, shift, NEARBY)
        with np.errstate(all="ignore"):
            below, above = (claim.case.value(_moved(start, direction, t)).reshape(-1) for t in (-STEP, STEP))
        slopes = weights * (above - below) / (2 * STEP)
        steepest = np.maximum(steepest, slopes)
        return float(slopes.sum())

    for _ in range(LINES):
        try_point({i: draw_cotangent(claim.rng, scale.shape) * scale / 4 for i, scale in scales.items()})
    for groups in _groups(direction):  # each group of entries in turn moves down, if that makes L steeper
        best, sign = try_point(direction), {i: np.ones(v.shape) for i, v in direction.items()}
        for i, index in groups:
            sign[i][index] *= -1
            found = try_point({j: sign[j] * v for j, v in direction.items()})
            if found > best:
                best = found
            else:
                sign[i][index] *= -1
    return float(steepest.sum())


def _groups(direction: Mapping[int, Array]) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return the entries that move, and the rows that hold some, as far as they are few."""
    entries = [(i, tuple(map(int, index))) for i, v in direction.items() for index in np.argwhere(v)]
    rows = list(dict.fromkeys((i, index[:-1]) for i, index in entries))
    return [entries[:MOST_GROUPS]] + ([rows[:MOST_GROUPS]] if rows != entries else [])


def _is_excused(
    claim: Measurement,
    compared: Mapping[int, InputReport],
    off: Mapping[int, Mapping[tuple[int, ...], tuple[float, float]]],
) -> bool:
    """Return whether a gradient that lies outside the slopes along some entries may still be a subgradient.

    Slopes at points nearby must reach it, along each of these entries and along the direction in which all move.
    """
    scales = {i: _scales(claim, i, record) for i, record in compared.items()}
    for i, entries in off.items():
        for index, sides in list(entries.items())[:SINGLE_PROCESS]:
            sign = 1 if claim.gradients[i][index] > sides[1] else -1
            entry = _direction((index, i), scales)
            found, bound = (sign * scales[i][index] * x for x in (claim.gradients[i][index], sides[sign > 0]))
            reached = _steepest(claim, scales, entry, sign, found)
            most = reached + BEYOND * (reached - bound) + OUTSIDE * abs(reached)
            if not reached - bound > FLAT * abs(reached) or not found <= most:
                return False
    along = _along(claim, scales)
    low, high = (sign * _steepest(claim, scales, scales, sign, sign * along) for sign in (-1, 1))
    return abs(along - (low + high) / 2) <= (0.5 + BEYOND) * (high - low) + FLAT * max(abs(low), abs(high))


def _along(claim: Measurement, direction: Mapping[int, Array]) -> float:
    """Return the claimed slope along a direction."""
    return sum(float((claim.gradients[i] * v).sum()) for i, v in direction.items())


def _is_linear(claim: Measurement, compared: Mapping[int, InputReport]) -> bool:
    """Return whether the slope along a direction is the sum of those along the entries.

    The entries move by random distances, each to where the gradient exceeds its slope, and those that agree to where
    most of the others do: max(0, min(x)) rises from x = 0 only where all entries do.
    """
    direction, terms, excess = {}, [0.0], {}
    for i, record in compared.items():
        beyond = claim.gradients[i] - np.where(np.isfinite(record.differences), record.differences, 0)
        excess[i] = np.sign(beyond) * (np.abs(beyond) > FLAT * record.largest)
    most = np.sign(sum(x.sum() for x in excess.values()))
    for i, record in compared.items():
        v = draw_cotangent(claim.rng, record.shape) * _scales(claim, i, record) * np.isfinite(record.differences)
        direction[i] = np.abs(v) * np.where(excess[i] == 0, most, excess[i]) if most else v
        terms += (np.where(np.isfinite(record.differences), record.differences, 0) * direction[i]).ravel().tolist()
    loss = claim.case.loss(direction, claim.d_output.astype(np.float64), claim.start, claim.eps)
    expected = float(np.sum(terms))
    slope = measure(loss, FIRST, expected, FLAT)
    error = FLAT * float(np.abs(terms).sum()) + len(terms) * slope.error
    return slope.sides is None and not abs(slope.value - expected) > error


def _steepest(
    claim: Measurement, scales: Mapping[int, Array], direction: Mapping[int, Array], sign: int, enough: float
) -> float:
    """Return the largest slope of L, times the sign, on lines along a direction near the inputs, or one that is enough.

    The share of entries that move down grows from none to all, so the entry of the direction takes every rank. Then
    each entry of the steepest line's start in turn goes back to where it was, if that makes L no less steep: the
    gradient of an eigenvalue is steepest along an entry of the diagonal where all others of its row are 0.
    """
    steepest, best = -np.inf, dict[int, Array]()
    for below in np.linspace(0, 1, LINES):
        shift = {i: draw_cotangent(claim.rng, scale.shape) for i, scale in scales.items()}
        shift = {
            i: np.where(claim.rng.uniform(size=s.shape) < below, -1, 1) * np.abs(s) * scales[i] / 4
            for i, s in shift.items()
        }
        if sum(np.count_nonzero(v) for v in direction.values()) == 1:
            shift = {i: s * (direction[i] == 0) for i, s in shift.items()}  # the entry passes all the others
        found = _steepest_on(claim, shift, direction, sign)
        if found > steepest:
            steepest, best = found, shift
        if steepest >= enough:
            return steepest
    for i, index in 2 * _groups(best)[0]:
        back = {**best, i: best[i].copy()}
        back[i][index] = 0
        found = _steepest_on(claim, back, direction, sign)
        if found >= steepest:
            steepest, best = found, back
        if steepest >= enough:
            break
    return steepest


def _steepest_on(claim: Measurement, shift: Mapping[int, Array], direction: Mapping[int, Array], sign: int) -> float:
    """Return the largest slope of L, times the sign, on the line along a direction through shifted inputs."""
    start = _moved(claim.case.inputs, shift, NEARBY)

    def loss(t: float) -> float:
        with np.errstate(all="ignore"):
            value = claim.case.value(_moved(start, direction, t * NEARBY))
            return sign * float((claim.d_output * (value - claim.start)).sum())

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
    return float((second - first) / ((high - low) * NEARBY))


def _scales(claim: Measurement, i: int, record: InputReport) -> Array:
    """Return how far each entry moves: by about its size, or that of a typical entry as far as that was measured."""
    scales = claim.case.scales(i) * np.isfinite(to_numpy(claim.case.inputs[i]))
    for index, length in record.small.items():
        scales[index] = length
    return scales


def _direction(kink: tuple[tuple[int, ...], int], scales: Mapping[int, Array]) -> dict[int, Array]:
    """Return the direction in which one entry moves by its size."""
    (index, moving), direction = kink, {i: np.zeros(scale.shape) for i, scale in scales.items()}
    direction[moving][index] = scales[moving][index]
    return direction


def _moved(inputs: list[Array], direction: Mapping[int, Array], t: float) -> list[Array]:
    return [to_numpy(x) + t * direction[i] if i in direction else x for i, x in enumerate(inputs)]


def _slope(claim: Measurement, inputs: list[Array], direction: Mapping[int, Array]) -> float:
    """Return the slope of L along a direction at some inputs."""
    with np.errstate(all="ignore"):
        low, high = (claim.case.value(_moved(inputs, direction, t)) for t in (-STEP, STEP))
    return float((claim.d_output * (high - low)).sum()) / (2 * STEP)
