"""SiLU, or swish: each entry times its own sigmoid.

With β > 0, by default 1:

    z = 1 / (1 + exp(-β x))                          (1)
    y = x z                                          (2)

For large x it is x, for very negative x it is 0, and in between it is smooth, unlike the ReLU. With β = 1.702 it is an
approximation of ``gelu``, with a difference of at most 0.021.

Gradient. ∂z/∂x = β z (1 - z), and x z is y:

    ∂y/∂x = z + β y (1 - z)                          (5)
    d_x   = d_y (z + β y (1 - z))                    (6)

The algebra in full: docs/derivations/silu.md.

Source: Sigmoid-Weighted Linear Units (Elfwing et al., 2017); Searching for Activation Functions (Ramachandran et al.,
2017), with β.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, check_floats, sigmoid
from minitransformer.autograd import Operation, Tensor


def check(x: Any, beta: float) -> None:
    """Check the type of the array, and β."""
    check_floats("silu", x=x)
    if not 0 < beta < float("inf"):
        raise ValueError(f"silu: beta must be above 0 and finite, found {beta}")


def forward(x: Array, beta: float = 1.0) -> tuple[Array, Any]:
    """Return ``x / (1 + exp(-beta * x))``.

    Parameters
    ----------
    x : array, any shape
        The inputs.
    beta : float
        How steep the sigmoid is.

    Returns
    -------
    y : array, the shape of x
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If x is not floating-point.
    ValueError
        If beta is not above 0.

    Examples
    --------
    >>> mt.ops.silu(np.array([-1.0, 0.0, 1.0])).numpy().round(3)
    array([-0.269,  0.   ,  0.731])
    """
    check(x, beta)
    beta = float(beta)  # a NumPy float64 would widen float32
    z = sigmoid(x if beta == 1 else beta * x)  # (1)
    y = x * z  # (2)
    return y, (y, z, beta)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of x."""
    y, z, beta = saved
    # (1), (2) y = x * sigmoid(beta * x): the slope is z + beta * y * (1 - z)  # (5)
    slope = 1 - z
    slope *= y
    slope *= beta
    slope += z
    d_x = slope * d_y  # (6)
    return (d_x,)


def reference(x: Tensor, beta: float = 1.0) -> Tensor:
    """Return the same function in elementary operations."""
    check(x, beta)
    return x * (beta * x).sigmoid()


silu = Operation(forward, backward, reference=reference)
