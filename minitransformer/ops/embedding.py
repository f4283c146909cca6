"""Embedding: a row of a table for each token id.

    y_t = E[id_t]                                    (1)

Gradient. Row v of the table is copied to every position t whose id is v, so its gradient is the sum over those
positions; ids themselves are whole numbers and have no gradient:

    d_E[v] = Σ_{t : id_t = v} d_y_t                  (5)

Source: Attention Is All You Need, section 3.4.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, as_indices, check_floats, scatter_add
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import rows

__all__ = ["backward", "composed", "embedding", "forward"]


def check(table: Any) -> None:
    """Refuse a table that is not a matrix of floating-point numbers."""
    check_floats("embedding", table=table)
    if table.ndim != 2:
        raise ValueError(f"embedding: expected a table of shape (V, D), found {table.shape}")


def forward(ids: Array, table: Array) -> tuple[Array, Any]:
    """Return the rows of a table that the ids name.

    Parameters
    ----------
    ids : integer array, shape (...)
        Token ids, each from 0 to V - 1.
    table : array, shape (V, D)
        One row for each token.

    Returns
    -------
    y : array, shape (..., D)
        ``y[t] = table[ids[t]]``.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If the ids are not whole numbers, or the table not floating-point.
    IndexError
        If an id is out of range.
    ValueError
        If the table has not two axes.

    Examples
    --------
    >>> table = np.array([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]])
    >>> mt.ops.embedding(np.array([2, 0]), table).numpy()
    array([[2. , 2.1],
           [0. , 0.1]])
    """
    check(table)
    ids = as_indices(ids, table.shape[0], "embedding")
    y = table.take(ids, axis=0)  # (1)
    return y, (ids, table.shape)


def backward(saved: Any, d_y: Array) -> tuple[None, Array]:
    """Return None for the ids, and the gradient of the table."""
    ids, shape = saved
    # (1) y_t = table[id_t]
    d_table = scatter_add(shape, ids.reshape(-1), rows(d_y))  # (5)
    return None, d_table


def composed(ids: Array, table: Tensor) -> Tensor:
    """Return the same function in elementary operations."""
    check(table)
    return table[as_indices(ids, table.shape[0], "embedding")]


embedding = Operation(forward, backward, composed=composed)
