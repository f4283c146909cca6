"""Linear layer: multiplies every position of x by the same matrix.

With the R positions as the rows of x (R, D_in) and y (R, D_out):

    y_rj = Σ_i x_ri W_ij + b_j                       (1)        y = x W + b

Gradient. x_ri is in every y_rj of its row, with factor W_ij. W_ij is in y_rj of every row, with factor x_ri, and b_j in
y_rj of every row, with factor 1:

    d_x_ri = Σ_j d_y_rj W_ij                         (7)        d_x = d_y Wᵀ
    d_W_ij = Σ_r x_ri d_y_rj                         (8)        d_W = xᵀ d_y
    d_b_j  = Σ_r d_y_rj                              (9)

Source: Attention Is All You Need, sections 3.2.2 (projections) and 3.4 (logits).
"""

from __future__ import annotations

from math import prod
from typing import Any

from minitransformer.arrays import Array, Shapes, matmul, xp
from minitransformer.autograd import Operation, Tensor


def rows(x: Array) -> Array:
    """Return x as a matrix of rows: (..., D) -> (R, D)."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def affine(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return ``x @ weight + bias``, unchecked: (..., D_in) -> (..., D_out)."""
    # One product of two matrices; (..., D_in) @ (D_in, D_out) would be many small ones.
    y = matmul(rows(x), weight)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[1])


check = Shapes("linear", "x (..., D_in), weight (D_in, D_out), bias (D_out,)")


def forward(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Any]:
    """Return ``x @ weight + bias``.

    Parameters
    ----------
    x : array, shape (..., D_in)
        The inputs.
    weight : array, shape (D_in, D_out)
        The matrix.
    bias : array, shape (D_out,), optional
        Added to each row.

    Returns
    -------
    y : array, shape (..., D_out)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, or if their types differ.
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> weight = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    >>> mt.ops.linear(np.array([[1.0, 2.0]]), weight, np.array([0.0, 0.0, 10.0])).numpy()
    array([[ 1.,  2., 13.]])
    """
    check(x, weight, bias)
    y = affine(x, weight, bias)  # (1)
    return y, (x, weight, bias is not None)


def backward(saved: Any, d_y: Array, needs: tuple[bool, ...] = (True, True)) -> tuple[Any, ...]:
    """Return the gradients of x, weight and bias; None for x or weight where it is not needed."""
    x, weight, has_bias = saved
    d_rows = rows(d_y)
    # (1) y = x @ weight + bias
    d_x = matmul(d_rows, weight.T).reshape(x.shape) if needs[0] else None  # (7)
    # empty_like keeps the memory order: a transposed embedding has a transposed gradient.
    d_weight = matmul(rows(x).T, d_rows, out=xp.empty_like(weight)) if needs[1] else None  # (8)
    d_bias = d_rows.sum(axis=0) if has_bias else None  # (9)
    return d_x, d_weight, d_bias


def reference(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the same function in elementary operations."""
    y = x @ weight
    return y if bias is None else y + bias


linear = Operation(forward, backward, reference=reference)
