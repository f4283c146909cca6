"""Rotary positions: each pair of features is rotated by an angle that grows with the position.

For the row at position t and the pair i of its D features, both counted from 0:

    ω_i = 1 / base^(2i/D)                            (1)        with 10000 as for ``sinusoidal_positions``
    y_(t, 2i)     = x_(t, 2i) cos(ω_i t) - x_(t, 2i+1) sin(ω_i t)        (2)
    y_(t, 2i + 1) = x_(t, 2i) sin(ω_i t) + x_(t, 2i+1) cos(ω_i t)        (3)

The rows are the queries and keys of a head. With R_t for the rotation by all angles ω_i t, rotations add and their
transposes are their inverses, so a score depends on positions only through their distance:

    (R_t q) · (R_u k) = q · R_(u-t) k                (6)

Other models number the features of a pair i and i + D/2 instead of 2i and 2i + 1, and have another base. Those that
were trained further on longer texts slow down the pairs that turn less than a few times in the length L of the first
training, by a factor f; between the thresholds a and b of L ω_i / 2π turns, gradually:

    s_i  = min(1, max(0, (L ω_i / 2π - a) / (b - a)))                      (7)
    ω'_i = s_i ω_i + (1 - s_i) ω_i / f                                     (8)

Gradient. y = R_t x is linear, so d_x = R_tᵀ d_y (9): the rotation by the opposite angle.

    d_x_(t, 2i)     =  d_y_(t, 2i) cos(ω_i t) + d_y_(t, 2i+1) sin(ω_i t)        (10)
    d_x_(t, 2i + 1) = -d_y_(t, 2i) sin(ω_i t) + d_y_(t, 2i+1) cos(ω_i t)        (11)

The algebra in full: docs/derivations/rotary.md.

Source: RoFormer (Su et al., 2021), section 3.2; (7) and (8): The Llama 3 Herd of Models, 2024, and its code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import pi
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, backend, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor, concatenate, stack


@dataclass(frozen=True)
class Rotation:
    """Which features are pairs, and how fast they turn."""

    layout: str = "interleaved"
    """Pair i has the features 2i and 2i + 1 ("interleaved"), or i and i + D/2 ("halves")."""
    base: float = 10000.0
    factor: float = 1.0
    """f, by which slow pairs turn more slowly."""
    low: float = 1.0
    """a: below so many turns in the length a pair is slow."""
    high: float = 4.0
    """b: above so many it is not."""
    length: float = 8192.0
    """L, in positions."""


PAPER = Rotation()
"""The rotation of RoFormer."""


def check(x: Any, first: int) -> None:
    """Check the type and shape of the array, and the first position."""
    check_floats("rotary", x=x)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(f"rotary: x of shape {x.shape} has no pairs of features: expected (..., T, D) with an even D")
    if not is_whole(first) or first < 0:
        raise ValueError(f"rotary: first must be a whole number of at least 0, found {first!r}")


@lru_cache(maxsize=16)
def _angles(length: int, d: int, dtype: Any, rotation: Rotation, library: str) -> tuple[Array, Array]:
    """Return cos(ω_i t) and sin(ω_i t) of the positions below a length: (T, D / 2) each. One table for each library."""
    frequencies = rotation.base ** -(np.arange(0, d, 2) / d)  # (1) ω_i
    if rotation.factor != 1:
        turns = rotation.length * frequencies / (2 * pi)
        fast = np.clip((turns - rotation.low) / (rotation.high - rotation.low), 0, 1)  # (7) s_i
        frequencies = fast * frequencies + (1 - fast) * frequencies / rotation.factor  # (8) ω'_i
    angles = np.arange(length)[:, None] * frequencies
    return asarray(np.cos(angles).astype(dtype)), asarray(np.sin(angles).astype(dtype))


def _rotations(x: Any, first: int, rotation: Rotation) -> tuple[Array, Array]:
    """Return the cosines and sines of x's rows: (T, D / 2) each."""
    first = int(first)
    last = first + x.shape[-2]
    # Table lengths are powers of two, so that there are few tables.
    cos, sin = _angles(1 << last.bit_length(), x.shape[-1], x.dtype, rotation, backend())
    return cos[first:last], sin[first:last]


def places(d: int, layout: str) -> tuple[Any, Any]:
    """Return the places of the first and of the second feature of each pair, as indices of arrays (..., D)."""
    pairs = (slice(0, None, 2), slice(1, None, 2)) if layout == "interleaved" else (slice(d // 2), slice(d // 2, None))
    return (..., pairs[0]), (..., pairs[1])


def forward(x: Array, first: int = 0, out: Array | None = None, rotation: Rotation = PAPER) -> tuple[Array, Any]:
    """Return x with each pair of features rotated by its position's angle.

    Parameters
    ----------
    x : array, shape (..., T, D)
        Queries or keys, one row for each position; D is even.
    first : int
        The position of the first row.
    out : array, shape (..., T, D), optional
        Where to write the output; it may be x.
    rotation : Rotation
        The pairs and their frequencies; by default those of the paper.

    Returns
    -------
    y : array, shape (..., T, D)
        The rotated rows.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If x is not floating-point.
    ValueError
        If D is odd, or first is not a whole number of at least 0.

    Examples
    --------
    >>> mt.ops.rotary(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])).numpy().round(3)
    array([[ 1.   ,  0.   ],
           [ 0.54 ,  0.841],
           [-0.416,  0.909]])
    """
    check(x, first)
    cos, sin = _rotations(x, first, rotation)
    y = xp.empty(x.shape, dtype=x.dtype) if out is None else out
    first_of, second_of = places(x.shape[-1], rotation.layout)
    even, odd = x[first_of], x[second_of]
    # Both in one statement, because out may be x.
    y[first_of], y[second_of] = even * cos - odd * sin, even * sin + odd * cos  # (2), (3)
    return y, (cos, sin, rotation.layout)


def backward(saved: Any, d_y: Array, out: tuple[Array | None] = (None,)) -> tuple[Array]:
    """Return the gradient of x, written to ``out`` if given, which may be d_y."""
    cos, sin, layout = saved
    d_x = xp.empty(d_y.shape, dtype=d_y.dtype) if out[0] is None else out[0]
    first_of, second_of = places(d_y.shape[-1], layout)
    d_left, d_right = d_y[first_of], d_y[second_of]
    # (2), (3): the transpose is the rotation by the opposite angle
    d_even = d_left * cos + d_right * sin  # (10)
    d_odd = d_right * cos - d_left * sin  # (11)
    d_x[first_of], d_x[second_of] = d_even, d_odd
    return (d_x,)


def reference(x: Tensor, first: int = 0, rotation: Rotation = PAPER) -> Tensor:
    """Return the same function in elementary operations."""
    check(x, first)
    cos, sin = _rotations(x, first, rotation)
    first_of, second_of = places(x.shape[-1], rotation.layout)
    even, odd = x[first_of], x[second_of]
    turned = even * cos - odd * sin, even * sin + odd * cos
    if rotation.layout == "halves":
        return concatenate(turned, axis=-1)
    return stack(turned, axis=-1).reshape(x.shape)


rotary = Operation(forward, backward, reference=reference)
