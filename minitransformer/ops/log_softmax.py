"""Log-softmax: the logarithm of the softmax, computed without ever taking the logarithm of a rounded-off 0.

For each row x of n scores along the axis:

    lse = log Σ_j exp(x_j)                           (1)
    y_i = x_i - lse                                  (2)

As in ``softmax``, the largest score may be subtracted first. No exponent is then above 0, and z is at least 1:

    u_i = x_i - max x        z = Σ_j exp(u_j)        (4)
    y_i = u_i - log z                                (5)

Gradient. With p = exp(y), the softmax of x, whose Jacobian ``softmax`` derives:

    ∂y_i/∂x_j = δ_ij - p_j                           (7)
    d_x_j = d_y_j - p_j Σ_i d_y_i                    (10)

The d_x of a row sum to zero, if one score is above -inf. Where a score is -inf, y is -inf too, p is 0 and d_x is d_y:
it is for ``masking`` to stop it. That holds for rows in which every score is -inf as well.

Source: the logarithm that the loss of section 5.4 takes of the softmax of section 3.4.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, below_largest, sum_along, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.softmax import check_axis

__all__ = ["backward", "composed", "forward", "log_softmax"]


def forward(x: Array, axis: int = -1) -> tuple[Array, Any]:
    """Return the logarithm of the softmax of x along an axis.

    Parameters
    ----------
    x : array, any shape
        The scores.
    axis : int
        The axis along which ``exp(y)`` sums to one.

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
    y = xp.subtract(shifted, xp.log(total + (total == 0)), out=shifted)
    return y, (y, axis)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores."""
    y, axis = saved
    # (2) y_i = x_i - log Σ_j exp(x_j)
    p = xp.exp(y)
    d_x = d_y - p * sum_along(d_y, axis)  # (10)
    return (d_x,)


def composed(x: Tensor, axis: int = -1) -> Tensor:
    """Return the same function in elementary operations; every row needs one score above -inf."""
    check_axis(x, axis, "log_softmax")
    if x.shape[axis] == 0:
        return x * 1  # there is no largest of no scores
    shifted = x - x.max(axis=axis, keepdims=True).detach()
    return shifted - shifted.exp().sum(axis=axis, keepdims=True).log()


log_softmax = Operation(forward, backward, composed=composed)
