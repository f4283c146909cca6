"""Embedding: a row of a table for each token id.

    y_r = E[id_r]                                    (1)

Gradient. Row v of the table is copied to every row r of y whose id is v, so its gradient is the sum over these rows.
Ids are integers and have no gradient:

    d_E[v] = Σ_{r : id_r = v} d_y_r                  (5)

The algebra in full: docs/derivations/embedding.md.

Source: Attention Is All You Need, section 3.4.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, as_indices, check_floats, scatter_add
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import rows


def check(table: Any) -> None:
    """Reject a table that is not a matrix of floating-point numbers."""
    check_floats("embedding", table=table)
    if table.ndim != 2:
        raise ValueError(f"embedding: expected a table of shape (V, D), found {table.shape}")


def forward(ids: Array, table: Array) -> tuple[Array, Any]:
    """Return the row of the table for each id.

    Parameters
    ----------
    ids : integer array, shape (...)
        Token ids, each from 0 to V - 1.
    table : array, shape (V, D)
        One row for each token.

    Returns
    -------
    y : array, shape (..., D)
        ``y[i] = table[ids[i]]`` for each index i of ids.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If the ids are not integers, or the table is not floating-point.
    IndexError
        If an id is out of range.
    ValueError
        If the table does not have two axes.

    Examples
    --------
    >>> table = np.array([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]])
    >>> mt.ops.embedding(np.array([2, 0]), table).numpy()
    array([[2. , 2.1],
           [0. , 0.1]])
    """
    check(table)
    ids = as_indices(ids, table.shape[0], "embedding")
    # take is faster, but would first copy a table that is stored by columns
    y = table.take(ids, axis=0) if table.flags.c_contiguous else table[ids]  # (1)
    return y, (ids, table.shape)


def backward(saved: Any, d_y: Array) -> tuple[None, Array]:
    """Return None for the ids, and the gradient of the table."""
    ids, shape = saved
    # (1) y_r = table[id_r]
    d_table = scatter_add(shape, ids.reshape(-1), rows(d_y))  # (5)
    return None, d_table


def reference(ids: Array, table: Tensor) -> Tensor:
    """Return the same function in elementary operations."""
    check(table)
    return table[as_indices(ids, table.shape[0], "embedding")]


embedding = Operation(forward, backward, reference=reference)
