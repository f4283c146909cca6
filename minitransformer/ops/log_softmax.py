"""Log-softmax: the logarithm of the softmax, correct even where the softmax underflows to 0.

For each row x of scores along the axis:

    lse = log Σ_j exp(x_j)                           (1)
    y_i = x_i - lse                                  (2)

As in ``softmax``, the largest score is subtracted first. Then no exponent is above 0, and z is at least 1:

    u_i = x_i - max x        z = Σ_j exp(u_j)        (4)
    y_i = u_i - log z                                (5)

Gradient. With p = exp(y), the softmax of x, and δ_ij = 1 if i = j, else 0:

    ∂y_i/∂x_j = δ_ij - p_j                           (7)
    c     = Σ_i d_y_i                                (9)
    d_x_j = d_y_j - p_j c                            (10)

The d_x of a row sum to 0 if at least one score is above -inf. Where a score is -inf, y is -inf, p is 0 and d_x is d_y;
the backward pass of ``masking`` then sets d_x to 0.

Source: Attention Is All You Need, section 3.4; the loss of section 5.4 uses it.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, below_largest, sum_along, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.softmax import check_axis


def forward(x: Array, axis: int = -1) -> tuple[Array, Any]:
    """Return the logarithm of the softmax of x along an axis.

    Parameters
    ----------
    x : array, any shape
        The scores.
    axis : int
        The axis along which ``exp(y)`` sums to 1.

    Returns
    -------
    y : array, the shape of x
        Log-probabilities, none above 0.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If x is not floating-point.
    ValueError
        If x has no such axis.

    Examples
    --------
    >>> mt.ops.log_softmax(np.array([0.0, 1.0, 3.0])).numpy().round(3)
    array([-3.17, -2.17, -0.17])
    """
    check_axis(x, axis, "log_softmax")
    if x.shape[axis] == 0:
        return xp.empty_like(x), (x, axis)
    # (4) u_i = x_i - max x, z = Σ_j exp(u_j)
    shifted = below_largest(x, axis)
    total = sum_along(xp.exp(shifted), axis)
    # (5) y_i = u_i - log z
    y = xp.subtract(shifted, xp.log(xp.maximum(total, 1)), out=shifted)
    return y, (y, axis)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores."""
    y, axis = saved
    # (2) y_i = x_i - log Σ_j exp(x_j)
    p = xp.exp(y)
    d_x = d_y - p * sum_along(d_y, axis)  # (10)
    return (d_x,)


def reference(x: Tensor, axis: int = -1) -> Tensor:
    """Return the same function in elementary operations; every row needs a score above -inf."""
    check_axis(x, axis, "log_softmax")
    if x.shape[axis] == 0:
        return x * 1  # max of an empty axis raises
    shifted = x - x.max(axis=axis, keepdims=True).detach()
    return shifted - shifted.exp().sum(axis=axis, keepdims=True).log()


log_softmax = Operation(forward, backward, reference=reference)
