"""Maxima and sums along an axis, and sums of rows by index, in the fastest form for the library in use."""

from __future__ import annotations

import numpy as np

from minitransformer.arrays.memory import CACHE
from minitransformer.arrays.namespace import Array, xp

SHORT = 64
"""The maximum of rows shorter than this is taken over the transposed array."""
FEW = 32
"""Unless there are no more rows than these."""
ROWS = 256
"""The number of cache slices whose squares a GPU sums at a time: more would only take memory."""


def max_along(x: Array, axis: int) -> Array:
    """Return the maximum along an axis, which stays as an axis of length 1."""
    if xp.ndarray is np.ndarray and x.shape[axis] < SHORT and x.size > FEW * x.shape[axis]:
        # NumPy's maximum of many short rows is slow; that of a few long ones is not.
        rows = x.swapaxes(axis, -1)
        across = rows.reshape(-1, rows.shape[-1]).T.copy()
        return across.max(axis=0).reshape(*rows.shape[:-1], 1).swapaxes(axis, -1)
    return x.max(axis=axis, keepdims=True)


def below_largest(x: Array, axis: int, out: Array | None = None) -> Array:
    """Return x minus its maximum along an axis: no entry is above 0, so a softmax can take its exponential.

    A row of only -inf is returned unchanged. A difference that is too large for its type is -inf, without a warning:
    its exponential is 0 in both cases.
    """
    largest = xp.maximum(max_along(x, axis), np.finfo(x.dtype).min)  # no longer -inf: -inf minus -inf is NaN
    with np.errstate(over="ignore"):
        return xp.subtract(x, largest, out=out)


def sum_along(x: Array, axis: int) -> Array:
    """Return the sum along an axis, which stays as an axis of length 1."""
    if xp.ndarray is np.ndarray:  # for many short rows einsum is several times faster than sum
        if axis == -1:
            return np.einsum("...i->...", x)[..., None]
        return sum_along(x.swapaxes(axis, -1), -1).swapaxes(axis, -1)
    return x.sum(axis=axis, keepdims=True)


def row_dot(x: Array, y: Array) -> Array:
    """Return the dot product of each row of x with the same row of y: (..., D), (..., D) -> (..., 1)."""
    return xp.einsum("...i,...i->...", x, y)[..., None]  # no array of products is written


def scatter_add(shape: tuple[int, ...], indices: Array, rows: Array) -> Array:
    """Return an array of zeros with each row added at its index; repeated indices add up.

    Parameters
    ----------
    shape : tuple of int
        (V, ...): the shape of the result.
    indices : integer array, shape (n,)
        Where each row goes.
    rows : array, shape (n, ...)
        What is added.

    Returns
    -------
    array, shape (V, ...)
        ``result[v]`` is the sum of the rows whose index is v.
    """
    result = xp.zeros(shape, dtype=rows.dtype)
    if indices.size == 0:
        return result
    if xp.ndarray is not np.ndarray:
        xp.add.at(result, indices, rows)
        return result
    # Sort the rows by index; then each index is one segment, and reduceat sums the segments.
    # np.add.at would do the same, several times slower.
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    result[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return result


def square_sums(values: Array) -> Array:
    """Return the sum of the squares of each cache slice of a vector, in float64.

    A slice's sum depends on that slice only, on a GPU too: a part that begins with a slice has the sums of the whole.
    """
    whole = len(values) // CACHE * CACHE
    parts = [values[start : min(start + ROWS * CACHE, whole)] for start in range(0, whole, ROWS * CACHE)]
    rows = [part.reshape(-1, CACHE) for part in parts] + ([values[None, whole:]] if whole < len(values) else [])
    found = [xp.square(row, dtype="float64").sum(axis=1) for row in rows]
    return xp.concatenate(found) if found else xp.zeros(0, dtype="float64")
