"""ALiBi: a penalty on attention scores that grows with the distance between query and key.

For H heads, h = 0 ... H - 1, a query at position i and a key at position j:

    m_h = 2^(-8 (h + 1) / H)                         (1)        the slope of a head
    bias_hij = -m_h |i - j|                          (2)

Attention adds the bias to its scores: s = q kᵀ / sqrt(Dk) + bias. The first heads see near keys only, the last heads
see far. Positions are not added to the embeddings. The bias is a constant, so it has no gradient.
The algebra in full: docs/derivations/alibi.md.

Source: Train Short, Test Long (Press, Smith and Lewis, 2021), section 3. If H is no power of 2, the authors' program
takes slopes of two such sequences; here (1) holds for every H.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, backend, is_whole


def alibi_slopes(n_heads: int) -> np.ndarray:
    """Return the slope of each head.

    Parameters
    ----------
    n_heads : int
        H, the number of heads.

    Returns
    -------
    numpy.ndarray, shape (H,)

    Raises
    ------
    ValueError
        If n_heads is not a whole number of at least 1.

    Examples
    --------
    >>> mt.ops.alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    _check_heads("alibi_slopes", n_heads)
    slopes: np.ndarray = 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)  # (1)
    return slopes


def alibi(n_heads: int, length: int, dtype: Any = "float64") -> Array:
    """Return the bias of all heads for a sequence that attends to itself.

    Parameters
    ----------
    n_heads : int
        H, the number of heads.
    length : int
        T, the number of positions.
    dtype : data type
        The type of the result.

    Returns
    -------
    array, shape (H, T, T)
        For ``bias=`` of ``scaled_dot_product_attention`` and ``multi_head_attention``.

    Raises
    ------
    ValueError
        If an argument is out of range or not an integer, or the type is not floating-point.

    Examples
    --------
    >>> mt.ops.alibi(2, 3)[0]
    array([[-0.    , -0.0625, -0.125 ],
           [-0.0625, -0.    , -0.0625],
           [-0.125 , -0.0625, -0.    ]])
    """
    _check_heads("alibi", n_heads)
    if not is_whole(length) or length < 0:
        raise ValueError(f"alibi: length must be a whole number of at least 0, found {length!r}")
    if np.dtype(dtype).kind != "f":
        raise ValueError(f"alibi: expected a floating-point type, found {np.dtype(dtype)}")
    # Table lengths are powers of two, so that there are few tables.
    table = _table(n_heads, 1 << int(length).bit_length(), np.dtype(dtype), backend())
    return table[:, :length, :length]


def _check_heads(function: str, n_heads: int) -> None:
    if not is_whole(n_heads) or n_heads < 1:
        raise ValueError(f"{function}: n_heads must be a whole number of at least 1, found {n_heads!r}")


@lru_cache(maxsize=8)
def _table(n_heads: int, length: int, dtype: Any, library: str) -> Array:
    """Return the bias as an array of the library in use; cached, because each layer needs it."""
    positions = np.arange(length)
    distances = abs(positions[:, None] - positions)
    return asarray((-alibi_slopes(n_heads)[:, None, None] * distances).astype(dtype))  # (2)
