"""Whether a gradient at several kinks is a subgradient as a whole, and not only entry by entry.

For |x - y| at x = y each entry of the gradient may be any number from -1 to 1, but only together with the opposite
number in the other entry. A subgradient is an average of gradients at points nearby, where there is no kink, so it lies
in the smallest plane that holds these gradients. They are measured at points to which each entry in turn moves the
farthest, up and down. A few entries with a kink move alone, all others together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import entry_scales
from minitransformer.testing.input_report import InputReport
from minitransformer.testing.slopes import EPS

__all__ = ["is_subgradient"]

ALONE = 8
"""How many entries with a kink move alone."""
ROUNDS = 4
"""How many times more points are drawn before a gradient is no subgradient."""
NEARBY, STEP = 2.0**-12, 2.0**-26
"""How far away the points are, and the step at them, relative to the inputs."""
FLAT, OUTSIDE = 1e-3, 0.05
"""Gradients that vary by less do not vary, and a gradient farther outside is none; relative to the largest."""


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
