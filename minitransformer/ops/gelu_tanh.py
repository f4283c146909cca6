"""GELU by tanh: the approximation of GELU that BERT and GPT-2 were trained with.

With c = √(2/π) and a = 0.044715:

    u = c (x + a x³)                                 (1)
    t = tanh(u)                                      (2)
    y = x (1 + t) / 2                                (3)

(1 + t) / 2 is close to Φ, the distribution function of the normal distribution, in the exact ``gelu``: y differs from
it by at most 0.0005.

Gradient. The derivative of tanh(u) is 1 - tanh²(u):

    ∂u/∂x = c (1 + 3 a x²)                           (5)
    ∂y/∂x = (1 + t) / 2 + x/2 (1 - t²) ∂u/∂x         (6)
    d_x   = d_y ∂y/∂x                                (7)

The algebra in full: docs/derivations/gelu-tanh.md.

Source: Gaussian Error Linear Units (Hendrycks and Gimpel, 2016), section 2. Hugging Face calls it ``gelu_new``, PyTorch
``gelu(x, approximate="tanh")``.
"""

from __future__ import annotations

from math import pi
from typing import Any

from minitransformer.arrays import Array, check_floats, xp
from minitransformer.autograd import Operation, Tensor, where

C = (2 / pi) ** 0.5
A = 0.044715
FAR = 10.0
"""Beyond, tanh(u) rounds to -1 or 1, and x³ may overflow."""


def forward(x: Array) -> tuple[Array, Any]:
    """Return ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    Parameters
    ----------
    x : array, any shape
        The inputs.

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

    Examples
    --------
    >>> mt.ops.gelu_tanh(np.array([-1.0, 0.0, 1.0])).numpy().round(3)
    array([-0.159,  0.   ,  0.841])
    """
    check_floats("gelu_tanh", x=x)
    near = xp.clip(x, -FAR, FAR)
    u = near * near
    u *= C * A
    u += C
    u *= near  # (1)
    t = xp.tanh(u)  # (2)
    y = 1 + t
    y /= 2
    y *= x  # (3)
    return y, (x, t)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of x."""
    x, t = saved
    # (1) u = C * (near + A * near**3)
    near = xp.clip(x, -FAR, FAR)
    slope = near * near
    slope *= 3 * C * A
    slope += C  # (5)
    # (2), (3) y = x * (1 + tanh(u)) / 2
    slope *= 1 - t * t
    slope *= near
    slope += t
    slope += 1
    slope /= 2  # (6)
    d_x = slope * d_y  # (7)
    return (d_x,)


def reference(x: Tensor) -> Tensor:
    """Return the same function in elementary operations."""
    check_floats("gelu_tanh", x=x)
    near = where(abs(x.data) < FAR, x, 0.0)
    t = where(abs(x.data) < FAR, (C * (near + A * near**3)).tanh(), xp.sign(x.data))
    return x * (1 + t) / 2


gelu_tanh = Operation(forward, backward, reference=reference)
