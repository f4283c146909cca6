"""Position-wise feed-forward network: two linear layers with a ReLU between them.

For each row x of D features, with F hidden units h:

    a = x W1 + b1                                    (1)        (D) -> (F)
    h = max(0, a)                                    (2)        (F)
    y = h W2 + b2                                    (3)        (F) -> (D)

Gradient, from the output back. The two linear layers are differentiated as in ``linear``; the ReLU lets a gradient
through where it let the value through:

    d_h  = d_y W2ᵀ      d_W2 = hᵀ d_y      d_b2 = Σ_r d_y_r          (8)
    d_a  = d_h where a > 0, else 0                                   (9)
    d_x  = d_a W1ᵀ      d_W1 = xᵀ d_a      d_b1 = Σ_r d_a_r          (10)

At a = 0 the ReLU has no derivative; the code takes 0. Since a > 0 exactly where h > 0, only h is kept.

Source: Attention Is All You Need, section 3.3, equation (2).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes, matmul, relu_in_place, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import affine, rows

check = Shapes("feed_forward", "x (..., D), w1 (D, F), b1 (F,), w2 (F, D_out), b2 (D_out,)")


def forward(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> tuple[Array, Any]:
    """Return ``max(0, x @ w1 + b1) @ w2 + b2``.

    Parameters
    ----------
    x : array, shape (..., D)
        The inputs.
    w1, b1 : arrays, shapes (D, F) and (F,)
        The first linear layer.
    w2, b2 : arrays, shapes (F, D_out) and (D_out,)
        The second linear layer; D_out is D in the Transformer.

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
    >>> w1, w2 = np.array([[1.0, -1.0]]), np.array([[1.0], [1.0]])  # together |x|
    >>> x = np.array([[-3.0], [2.0]])
    >>> mt.ops.feed_forward(x, w1, np.zeros(2), w2, np.zeros(1)).numpy()
    array([[3.],
           [2.]])
    """
    check(x, w1, b1, w2, b2)
    a = affine(x, w1, b1)  # (1)
    hidden = relu_in_place(a)  # (2)
    y = affine(hidden, w2, b2)  # (3)
    return y, (x, hidden, w1, w2)


def backward(saved: Any, d_y: Array, needs: tuple[bool, ...] = (True,) * 5) -> tuple[Array | None, ...]:
    """Return the gradients of x, w1, b1, w2 and b2; None for x, w1 or w2 where it is not needed."""
    x, hidden, w1, w2 = saved
    d_rows = rows(d_y)
    # (3) y = hidden @ w2 + b2
    d_hidden = matmul(d_rows, w2.T).reshape(hidden.shape)  # (8)
    d_w2 = matmul(rows(hidden).T, d_rows) if needs[3] else None
    d_b2 = d_rows.sum(axis=0)
    # (2) hidden = max(0, a)
    # xp.where would also stop an infinite d_hidden, but takes ten times as long
    d_a = xp.multiply(d_hidden, hidden > 0, out=d_hidden)  # (9)
    # (1) a = x @ w1 + b1
    d_a_rows = rows(d_a)
    d_x = matmul(d_a_rows, w1.T).reshape(x.shape) if needs[0] else None  # (10)
    d_w1 = matmul(rows(x).T, d_a_rows) if needs[1] else None
    d_b1 = d_a_rows.sum(axis=0)
    return d_x, d_w1, d_b1, d_w2, d_b2


def reference(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """Return the same function in elementary operations."""
    return (x @ w1 + b1).relu() @ w2 + b2


feed_forward = Operation(forward, backward, reference=reference)
