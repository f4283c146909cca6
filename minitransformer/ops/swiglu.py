"""SwiGLU: one half of the features passes the other half, as much as its SiLU says.

The last axis of x holds 2F features, the gates a and then the values b:

    a, b = the first and the last F features of x    (1)
    z = 1 / (1 + exp(-a))                            (2)
    u = a z                                          (3)        silu(a)
    y = u b                                          (4)

In a feed-forward network, a and b are two projections of the same position, side by side in one matrix product, and y
takes the place of the hidden units after the ReLU.

Gradient. y is a product of u and b, and ∂u/∂a = z + u (1 - z) (5), as for ``silu``:

    d_b = d_y u                                      (6)
    d_u = d_y b                                      (7)
    d_a = d_u (z + u (1 - z))                        (8)
    d_x = [d_a | d_b]                                (9)

The algebra in full: docs/derivations/swiglu.md.

Source: GLU Variants Improve Transformer (Shazeer, 2020).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, check_floats, sigmoid, xp
from minitransformer.autograd import Operation, Tensor


def check(x: Any) -> None:
    """Check the type and the shape of the array."""
    check_floats("swiglu", x=x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ValueError(
            f"swiglu: x of shape {x.shape} has no two halves: expected (..., 2F), F gates and then F values"
        )


def forward(x: Array) -> tuple[Array, Any]:
    """Return ``silu(a) * b`` for the halves a and b of the last axis.

    Parameters
    ----------
    x : array, shape (..., 2F)
        The gates a and then the values b.

    Returns
    -------
    y : array, shape (..., F)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If x is not floating-point.
    ValueError
        If the last axis has no two halves.

    Examples
    --------
    >>> mt.ops.swiglu(np.array([[-1.0, 0.0, 1.0, 3.0, 3.0, 3.0]])).numpy().round(3)
    array([[-0.807,  0.   ,  2.193]])
    """
    check(x)
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]  # (1)
    z = sigmoid(a)  # (2)
    u = a * z  # (3)
    y = u * b  # (4)
    return y, (b, z, u)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of x."""
    b, z, u = saved
    # (4) y = u * b
    d_b = d_y * u  # (6)
    d_u = d_y * b  # (7)
    # (2), (3) u = a * sigmoid(a)
    slope = 1 - z
    slope *= u
    slope += z
    d_a = d_u * slope  # (8)
    # (1) a and b are the halves of x
    d_x = xp.concatenate((d_a, d_b), axis=-1)  # (9)
    return (d_x,)


def reference(x: Tensor) -> Tensor:
    """Return the same function in elementary operations."""
    check(x)
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]
    return a * a.sigmoid() * b


swiglu = Operation(forward, backward, reference=reference)
