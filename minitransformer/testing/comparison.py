"""Comparing the gradient of one input with finite differences: entry by entry, and in random directions.

Next: ``subgradients.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.testing.case import draw_direction
from minitransformer.testing.claim import Claim
from minitransformer.testing.measurement import UNCLEAR, Measurement
from minitransformer.testing.report import InputReport, Refuses
from minitransformer.testing.steps import glance

MAX_ENTRIES, N_DIRECTIONS = 256, 8
LEAST = 0.5
"""The least that an entry moves along a direction, relative to its size."""
SMALL = 1 / 16
"""An entry that is so much smaller than a typical one is also moved by its own size."""
SURE = 3
"""After this many wrong entries of an input, the others only serve to find the cause."""


def compare_all(
    claim: Claim, inputs: Iterable[int], max_entries: int = MAX_ENTRIES, n_directions: int = N_DIRECTIONS
) -> dict[int, InputReport]:
    """Compare the gradients of real inputs, and of the other parts of complex ones, with finite differences."""
    parts = {i: claim.case.leaf_of(i)[1] for i in inputs}
    moving = sorted({j for p in parts.values() for j in p})
    records = {j: compare_input(claim, j, max_entries, n_directions) for j in moving}
    for places in parts.values():
        largest = max(records[j].largest for j in places)
        size = max(records[j].size for j in places)
        for j in places:  # the imaginary part of a gradient may be 0, up to the rounding of the real one
            records[j].largest, records[j].size = largest, size
        together = min(records[j].together for j in places)
        for j in places:  # a factor of the whole gradient shows in either part
            records[j].together = together
    return records


def compare_input(claim: Measurement, i: int, max_entries: int, n_directions: int) -> InputReport:
    """Compare the gradient of one input with finite differences."""
    x, gradient, rng = to_numpy(claim.case.inputs[i]), claim.gradients[i], claim.rng
    known = gradient.shape == x.shape  # otherwise only the measurement is of use: it shows the cause
    record = InputReport(claim.case.names[i], x.shape, differences=np.full(x.shape, np.nan))
    movable = np.flatnonzero(np.isfinite(x))
    record.size, record.n_entries = float(np.abs(gradient).max(initial=0.0)), movable.size
    sizes = claim.case.sizes(i)
    scales = claim.case.scales(i)

    def enter(index: tuple[int, ...]) -> None:
        direction = np.zeros(x.shape)
        direction[index] = 1.0
        slope = claim.slope(i, direction, float(scales[index]), len(record.wrong_entries) >= SURE)
        small = 0 < sizes[index] < (scales[index] if np.isnan(slope.value) else SMALL * scales[index])
        if small and len(record.wrong_entries) < SURE and known and not claim.confirms(slope, float(gradient[index])):
            # a step of a typical size may leave the domain, or pass over what the function does near a small entry
            length = float(2.0 ** np.round(np.log2(sizes[index])))
            own = claim.slope(i, direction, length)
            clear = own.error <= UNCLEAR * max(abs(own.value), abs(float(gradient[index])))
            better = slope.sides is None and own.error < slope.error < np.inf
            if np.isfinite(own.value) and own.sides is None and (clear or better or not np.isfinite(slope.value)):
                slope, record.small[index] = own, length
        record.differences[index] = slope.value
        if np.isinf(slope.value):
            record.jumps.append(index)
        elif np.isnan(slope.value):
            record.resolution = np.inf
        if known and (np.isfinite(slope.value) or claim.quick):
            claimed = float(gradient[index])
            unseen = claim.unseen(slope, claimed, float(scales[index])) if np.isfinite(slope.value) else np.inf
            record.enter(claimed, slope, claim.tolerance, index, unseen)

    few = movable.size <= max_entries
    for flat in movable if few else sorted(rng.choice(movable, max_entries, replace=False)):
        enter(_index(flat, x))
    for _ in range(0 if few or not known else n_directions):
        direction = draw_direction(rng, x) * scales
        slope = claim.slope(i, direction, 1.0)
        if np.isnan(slope.value):  # some entry leaves the domain: move each by its own size
            direction = direction / scales * np.minimum(scales, claim.case.scales(i, typical=False))
            slope = claim.slope(i, direction, 1.0)
        along = claim.along(i, direction)
        if np.isnan(slope.value):
            record.resolution = np.inf
        if not np.isfinite(slope.value):
            continue
        wrong = slope.disagreement(along, claim.tolerance) > claim.tolerance
        if not (wrong and record.kinks):  # where several kinks meet, the slopes along a direction bound no subgradient
            record.enter(along, slope, claim.tolerance, None, claim.unseen(slope, along, 1.0))
        if wrong:
            flat = None if record.wrong_entries else _find_wrong(claim, i, direction)
            if flat is not None:
                enter(_index(flat, x))
        elif slope.sides is None:
            hidden = max(claim.tolerance * max(abs(along), abs(slope.value)), slope.error)
            hidden = (hidden + claim.noise_along(i, direction)) / (LEAST * float(scales.min()))
            record.certain = min(record.certain or np.inf, hidden)
    return record


def _index(flat: Any, x: Array) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(flat, x.shape))


def _find_wrong(claim: Measurement, i: int, direction: Array) -> int | None:
    """Return a wrong entry by halving a direction along which the gradient is wrong; None if no half is wrong alone."""
    entries = np.flatnonzero(direction)
    while entries.size > 1:
        for half in np.array_split(entries, 2):
            part = np.zeros(direction.shape)
            part.flat[half] = direction.flat[half]
            if claim.slope(i, part, 1.0).disagreement(claim.along(i, part), claim.tolerance) > claim.tolerance:
                entries = half
                break
        else:
            return None
    return int(entries[0])


def errors_over_steps(claim: Claim, record: InputReport) -> list[tuple[float, float]]:
    """Return the error of central differences at the worst entry of an input, for steps of all sizes."""
    if record.worst_index is None:
        return []
    i = claim.case.names.index(record.name)
    x = claim.case.inputs[i]
    direction = np.zeros(x.shape)
    direction[record.worst_index] = 1.0
    scale = float(claim.case.scales(i)[record.worst_index])
    loss = claim.case.loss({i: direction}, claim.d_output.astype(np.float64), claim.start, claim.eps)
    steps = [scale * 2.0**-n for n in range(1, round(-0.6 * np.log2(claim.eps)), 2)]
    found = []
    for h in steps:
        with suppress(Refuses):  # at a long step, beside those that were taken
            found.append((h, glance(loss, h)[0]))
    return [(h, abs(slope.value - record.claim)) for h, slope in found if np.isfinite(slope.error)]
