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

Next: ``verdicts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measurement import Measurement
from minitransformer.testing.report import InputReport
from minitransformer.testing.slopes import measure

ALONE = 8
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

Index = tuple[int, ...]
Direction = Mapping[int, Array]
"""How far each entry of the inputs moves."""


def judge_ties(claim: Measurement, compared: Mapping[int, InputReport]) -> tuple[Literal["", "wrong", "kink"], str]:
    """Return what the points nearby say about a gradient, with the cause; nothing if no smooth pieces meet here.

    The verdict is "wrong" if the gradient is no subgradient, although rounding of tied inputs explains wrong entries,
    or there are none. It is "kink" if the gradient may be one: then inputs with wrong entries become ``excused``.
    """
    records = list(compared.values())
    if claim.eps > EPS or any(r.resolution == np.inf for r in records):  # too few digits for gradients nearby
        return "", ""
    nearby = Nearby(claim, compared)
    wrong, kinks = ([r for r in records if r.wrong], [r for r in records if r.kinks])
    off = {i: r.wrong_entries if kinks or wrong else entries_off(claim.gradients[i], r) for i, r in compared.items()}
    moved = sum(int(np.isfinite(r.differences).sum()) for r in records)
    if (wrong or not kinks) and (moved < 2 or claim.smooth or nearby.is_linear()):
        return "", ""
    if wrong or any(off.values()):
        excused = all(off[i] for i, r in compared.items() if r.wrong) and nearby.is_excused(off)
        if not excused:
            return ("", "") if wrong else ("wrong", "the gradient is none of those nearby, where no inputs are tied")
        for i in compared:
            compared[i].excused = bool(off[i])
        return "kink", (
            f"more than two smooth pieces of the function meet at {_list(compared[i] for i in off if off[i])}, so "
            "slopes along single entries do not bound the gradient, and the claimed one may belong to a piece; give "
            "inputs without ties"
        )
    is_one, varies, outside = nearby.is_average()
    if not is_one or (kinks and nearby.is_too_steep(outside)):
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


def entries_off(gradient: Array, record: InputReport) -> dict[Index, tuple[float, float]]:
    """Return the entries that differ from their slopes, whatever rounding explains, with the slopes; not the kinks."""
    known = np.isfinite(record.differences)
    difference = np.abs(np.where(known, gradient - record.differences, 0))
    places = (tuple(map(int, index)) for index in np.argwhere(difference > FLAT * record.largest))
    return {index: (record.differences[index],) * 2 for index in places if index not in record.kinks}


def _list(records: Iterable[InputReport]) -> str:
    return " and ".join(record.name for record in records)


class Nearby:
    """What L does at points near the inputs, beside what a gradient claims."""

    def __init__(self, claim: Measurement, compared: Mapping[int, InputReport]) -> None:
        self.claim, self.compared, self.rng = claim, compared, claim.rng
        self.weights = claim.d_output.astype(np.float64)

    @cached_property
    def scales(self) -> dict[int, Array]:
        """How far each entry moves: by about its size, or that of a typical entry as far as that was measured."""
        scales = {i: self.claim.case.scales(i) * np.isfinite(self.claim.case.inputs[i]) for i in self.compared}
        for i, record in self.compared.items():
            for index, length in record.small.items():
                scales[i][index] = length
        return scales

    def value(self, *moves: tuple[Direction, float]) -> Array:
        """Return y, a vector, where the inputs have moved along some directions, by so much each."""
        inputs = list(self.claim.case.inputs)
        for direction, t in moves:
            for i, v in direction.items():
                inputs[i] = inputs[i] + t * v
        with np.errstate(all="ignore"):
            return self.claim.case.value(inputs)

    def shift(self) -> dict[int, Array]:
        """Draw a point, by how far it is away from the inputs."""
        return {i: draw_cotangent(self.rng, scale.shape) * scale / 4 for i, scale in self.scales.items()}

    def entry(self, i: int, index: Index) -> dict[int, Array]:
        """Return the direction in which one entry moves by its size."""
        direction = {j: np.zeros(scale.shape) for j, scale in self.scales.items()}
        direction[i][index] = self.scales[i][index]
        return direction

    def along(self, direction: Direction) -> float:
        """Return the claimed slope along a direction."""
        return sum(float((self.claim.gradients[i] * v).sum()) for i, v in direction.items())

    def is_average(self) -> tuple[bool, bool, dict[int, Array]]:
        """Return whether a gradient that agrees with the slopes along entries may be an average of those nearby.

        Then, whether these vary, and the direction in which the gradient lies outside of their plane.
        """
        kinks = [(index, i) for i, record in self.compared.items() for index in record.kinks]
        kinks.sort(
            key=lambda kink: (np.ravel_multi_index(kink[0], self.scales[kink[1]].shape) if kink[0] else 0, kink[1])
        )
        others = [(index, i) for i, scale in self.scales.items() for index in np.ndindex(scale.shape) if scale[index]]
        if len(others) < 2:
            return True, False, {}
        alone = list(dict.fromkeys([*kinks, *others]))[:ALONE]
        directions = [self.entry(i, index) for index, i in alone]
        directions.append({i: scale - sum(v[i] for v in directions) for i, scale in self.scales.items()})
        directions = [v for v in directions if any(part.any() for part in v.values())]
        found = np.array([self.along(v) for v in directions])
        nearby: list[list[float]] = []
        for _ in range(ROUNDS):
            for v in directions:
                for sign in (1, -1):
                    point = {i: shift + sign * v[i] for i, shift in self.shift().items()}
                    ends = [[self.value((point, NEARBY), (w, t)) for t in (-STEP, STEP)] for w in directions]
                    nearby.append([float((self.weights * (high - low)).sum()) / (2 * STEP) for low, high in ends])
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
                return True, bool(varied.size), {i: np.sum([w * v[i] for w, v in pairs], axis=0) for i in self.scales}
        return False, True, {}

    def is_too_steep(self, outside: Direction) -> bool:
        """Return whether a gradient at kinks rises faster along some direction than the function does nearby.

        The directions are the gradient itself at all kinks and at those of each input, and ``outside``.
        """
        at_kinks = {i: np.zeros(scale.shape) for i, scale in self.scales.items()}
        for i, record in self.compared.items():
            for index in record.kinks:
                at_kinks[i][index] = self.claim.gradients[i][index] * self.scales[i][index] ** 2
        alone = [{j: v * (j == i) for j, v in at_kinks.items()} for i in at_kinks]
        for direction in [at_kinks, *(alone if len(alone) > 1 else []), outside]:
            sizes = {i: np.where(scale, scale, 1) for i, scale in self.scales.items()}
            length = max((np.abs(v / sizes[i]).max(initial=0.0) for i, v in direction.items()), default=0.0)
            if not 0 < length < np.inf:
                continue
            v = {i: part / length for i, part in direction.items()}
            size = sum(float(np.abs(self.claim.gradients[i] * part).sum()) for i, part in v.items())
            if self.along(v) > self._steepest_bound(v) + OUTSIDE * size:
                return True
        return False

    def _steepest_bound(self, direction: Direction) -> float:
        """Return a bound on the slopes of L along a direction near the inputs: the sum of those of the entries of y."""
        low, here, high = (self.value((direction, t)) for t in (-CLOSE, 0.0, CLOSE))
        steepest = np.maximum(self.weights * (high - here), self.weights * (here - low)) / CLOSE

        def try_point(shift: Direction) -> float:
            nonlocal steepest
            below, above = (self.value((shift, NEARBY), (direction, t)) for t in (-STEP, STEP))
            slopes = self.weights * (above - below) / (2 * STEP)
            steepest = np.maximum(steepest, slopes)
            return float(slopes.sum())

        for _ in range(LINES):
            try_point(self.shift())
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

    def is_excused(self, off: Mapping[int, Mapping[Index, tuple[float, float]]]) -> bool:
        """Return whether a gradient that lies outside the slopes along some entries may still be a subgradient.

        Slopes at points nearby must reach it, along each of these entries and along the direction in which all move.
        """
        for i, entries in off.items():
            for index, sides in list(entries.items())[:ALONE]:
                claimed = self.claim.gradients[i][index]
                sign = 1 if claimed > sides[1] else -1
                found, bound = (sign * self.scales[i][index] * x for x in (claimed, sides[sign > 0]))
                reached = self._steepest(self.entry(i, index), sign, found)
                most = reached + BEYOND * (reached - bound) + OUTSIDE * abs(reached)
                if not reached - bound > FLAT * abs(reached) or not found <= most:
                    return False
        along = self.along(self.scales)
        low, high = (sign * self._steepest(self.scales, sign, sign * along) for sign in (-1, 1))
        return abs(along - (low + high) / 2) <= (0.5 + BEYOND) * (high - low) + FLAT * max(abs(low), abs(high))

    def is_linear(self) -> bool:
        """Return whether the slope along a direction is the sum of those along the entries.

        The entries move by random distances, each to where the gradient exceeds its slope, and those that agree to
        where most of the others do: max(0, min(x)) rises from x = 0 only where all entries do.
        """
        direction, terms, excess = {}, [0.0], {}
        known = {i: np.isfinite(record.differences) for i, record in self.compared.items()}
        slopes = {i: np.where(known[i], record.differences, 0) for i, record in self.compared.items()}
        for i, record in self.compared.items():
            beyond = self.claim.gradients[i] - slopes[i]
            excess[i] = np.sign(beyond) * (np.abs(beyond) > FLAT * record.largest)
        most = np.sign(sum(x.sum() for x in excess.values()))
        for i, record in self.compared.items():
            v = draw_cotangent(self.rng, record.shape) * self.scales[i] * known[i]
            direction[i] = np.abs(v) * np.where(excess[i] == 0, most, excess[i]) if most else v
            terms += (slopes[i] * direction[i]).ravel().tolist()
        loss = self.claim.case.loss(direction, self.weights, self.claim.start, self.claim.eps)
        expected = float(np.sum(terms))
        slope = measure(loss, FIRST, expected, FLAT)
        error = FLAT * float(np.abs(terms).sum()) + len(terms) * slope.error
        return slope.sides is None and not abs(slope.value - expected) > error

    def _steepest(self, direction: Direction, sign: int, enough: float) -> float:
        """Return the largest slope of L, times the sign, on lines along a direction near the inputs, or an ``enough``.

        The share of entries that move down grows from none to all, so the entry of the direction takes every rank. Then
        each entry of the steepest line's start in turn goes back to where it was, if that makes L no less steep: the
        gradient of an eigenvalue is steepest along an entry of the diagonal where all others of its row are 0.
        """
        steepest, best = -np.inf, dict[int, Array]()
        for below in np.linspace(0, 1, LINES):
            shift = {i: np.abs(s) for i, s in self.shift().items()}
            shift = {i: np.where(self.rng.uniform(size=s.shape) < below, -s, s) for i, s in shift.items()}
            if sum(np.count_nonzero(v) for v in direction.values()) == 1:
                shift = {i: s * (direction[i] == 0) for i, s in shift.items()}  # the entry passes all the others
            found = self._steepest_on(shift, direction, sign)
            if found > steepest:
                steepest, best = found, shift
            if steepest >= enough:
                return steepest
        for i, index in 2 * _groups(best)[0]:
            back = {**best, i: best[i].copy()}
            back[i][index] = 0
            found = self._steepest_on(back, direction, sign)
            if found >= steepest:
                steepest, best = found, back
            if steepest >= enough:
                break
        return steepest

    def _steepest_on(self, shift: Direction, direction: Direction, sign: int) -> float:
        """Return the largest slope of L, times the sign, on the line along a direction through shifted inputs."""

        def loss(t: float) -> float:
            value = self.value((shift, NEARBY), (direction, t * NEARBY))
            return sign * float((self.weights * (value - self.claim.start)).sum())

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


def _groups(direction: Direction) -> list[list[tuple[int, Index]]]:
    """Return the entries that move, and the rows that hold some, as far as they are few."""
    entries = [(i, tuple(map(int, index))) for i, v in direction.items() for index in np.argwhere(v)]
    rows = list(dict.fromkeys((i, index[:-1]) for i, index in entries))
    return [entries[:MOST_GROUPS]] + ([rows[:MOST_GROUPS]] if rows != entries else [])
