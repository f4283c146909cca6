"""Softmax: turns scores into weights that are positive and sum to 1.

For each row x of scores along the axis:

    y_i = exp(x_i) / Σ_j exp(x_j)                    (1)

Subtracting the same number from all scores multiplies numerator and denominator by the same factor, so the weights stay
the same. After subtracting the largest score no exponent is above 0, and no exponential overflows:

    e_i = exp(x_i - max x)                           (2)
    z   = Σ_j e_j                                    (3)
    y_i = e_i / z                                    (4)

Gradient. Each y_i depends on every x_j through the denominator. With δ_ij = 1 if i = j, else 0, the quotient rule
gives

    ∂y_i/∂x_j = y_i (δ_ij - y_j)                     (6)

and the chain rule, with d_y the gradient of the loss with respect to y,

    d_x_j = Σ_i d_y_i ∂y_i/∂x_j                      (8)
          = Σ_i d_y_i y_i (δ_ij - y_j)
    ζ     = Σ_i d_y_i y_i                            (9)
    d_x_j = y_j (d_y_j - ζ)                          (10)

ζ is one number per row. The d_x of a row sum to 0, because adding a constant to x does not change y.

Mask. A masked score counts as -inf (see ``masking``): its weight is exp(-inf) = 0, and so is its gradient. A row of
nothing but -inf (a query that may attend to nothing) has weights 0 and gradients 0.

Source: Attention Is All You Need, equation (1) and section 3.2.3.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, as_optional_mask, below_largest, check_floats, is_whole, sum_along, xp
from minitransformer.autograd import Operation, Tensor, where


def check(x: Any, axis: int, out: Array | None = None) -> None:
    """Check the arguments of softmax; out must have the shape and type of x."""
    check_axis(x, axis, "softmax")
    if out is not None and (out.shape != x.shape or out.dtype != x.dtype):
        raise ValueError(
            f"softmax: expected out of type {x.dtype} and shape {x.shape}, found {out.dtype} and {out.shape}"
        )


def check_axis(x: Any, axis: int, operation: str) -> None:
    """Check that the scores are floating-point numbers and have the axis."""
    check_floats(operation, x=x)
    if not is_whole(axis):
        raise TypeError(f"{operation}: axis must be a whole number, found {axis!r}")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{operation}: axis {axis} is out of range for x of shape {x.shape}")


def hide(x: Array, mask: Array, out: Array | None) -> Array:
    """Return the scores with -inf where the mask is False, written to out if given; out may be x."""
    out = xp.empty_like(x) if out is None else out
    if out is not x:
        xp.copyto(out, x)
    xp.copyto(out, -xp.inf, where=~mask)
    return out


def forward(x: Array, axis: int = -1, mask: Array | None = None, out: Array | None = None) -> tuple[Array, Any]:
    """Return the softmax of x along an axis.

    Parameters
    ----------
    x : array, any shape
        The scores; a score of -inf gets the weight 0.
    axis : int
        The axis along which the weights sum to 1.
    mask : boolean array, broadcastable to the shape of x, optional
        Where it is False, the weight is 0.
    out : array, the shape of x, optional
        Where to write the weights; may be x.

    Returns
    -------
    y : array, the shape of x
        The weights.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If x is not floating-point, or the mask not boolean.
    ValueError
        If x has no such axis, or the mask or out does not match.

    Examples
    --------
    >>> x = mt.Tensor([[0.0, 1.0, 3.0]], requires_grad=True)
    >>> y = mt.ops.softmax(x)
    >>> y.numpy().round(3)
    array([[0.042, 0.114, 0.844]])
    >>> y.backward([[1.0, 0.0, 0.0]])
    >>> x.grad.round(3)  # sums to zero
    array([[ 0.04 , -0.005, -0.035]])
    """
    check(x, axis, out)
    mask = as_optional_mask(mask, x.shape, "softmax")
    if x.shape[axis] == 0:
        return xp.empty_like(x), (x, axis)
    if mask is not None:
        x = out = hide(x, mask, out)
    # (2) e_i = exp(x_i - max x)
    shifted = below_largest(x, axis, out)
    exponentials = xp.exp(shifted, out=shifted)
    # (3) z = Σ_j e_j
    total = sum_along(exponentials, axis)
    # (4) y_i = e_i / z; the largest e is 1, so z is at least 1 but in a fully masked row, which is 0 / 1
    y = xp.divide(exponentials, xp.maximum(total, 1), out=exponentials)
    return y, (y, axis)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores."""
    y, axis = saved
    # (1) y_i = exp(x_i) / Σ_j exp(x_j)
    row_sum = sum_along(d_y * y, axis)  # (9) Σ_i d_y_i y_i
    difference = d_y - row_sum
    d_x = xp.multiply(difference, y, out=difference)  # (10)
    return (d_x,)


def reference(x: Tensor, axis: int = -1, mask: Array | None = None) -> Tensor:
    """Return the same function in elementary operations; the visible scores of a row may not all be -inf."""
    check(x, axis)
    mask = as_optional_mask(mask, x.shape, "softmax")
    if x.shape[axis] == 0:
        return x * 1  # max of an empty axis raises
    if mask is not None:
        # A fully masked row has no softmax: give it equal scores, then set its weights to 0.
        sees_nothing = ~xp.broadcast_to(mask, x.shape).any(axis=axis, keepdims=True)
        x = where(mask, x, xp.where(sees_nothing, 0.0, -xp.inf).astype(x.dtype))
    exponentials = (x - x.max(axis=axis, keepdims=True).detach()).exp()
    y = exponentials / exponentials.sum(axis=axis, keepdims=True)
    return y if mask is None else y * (~sees_nothing).astype(x.dtype)


softmax = Operation(forward, backward, reference=reference)
