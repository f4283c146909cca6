"""GELU: each entry times the probability that a normal random number is below it.

With Φ, the distribution function of the normal distribution with mean 0 and variance 1:

    Φ = (1 + erf(x / √2)) / 2                        (1)        erf is the error function
    y = x Φ                                          (2)

For large x it is x, for very negative x it is 0, and in between it is smooth, unlike the ReLU. The error function is

    erf(u) = 2/√π ∫ exp(-t²) dt, from 0 to u         (3)

Gradient. ∂Φ/∂x is the density of the normal distribution, φ:

    φ     = exp(-x² / 2) / √(2π)                     (5)
    ∂y/∂x = Φ + x φ                                  (7)
    d_x   = d_y (Φ + x φ)                            (8)

The algebra in full: docs/derivations/gelu.md.

Source: Gaussian Error Linear Units (Hendrycks and Gimpel, 2016). The approximations of that paper are other functions:
one with tanh, ``gelu_tanh``, and x σ(1.702 x), which is ``silu`` with beta = 1.702.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, check_floats, erf, xp
from minitransformer.autograd import Operation, Tensor, where


def forward(x: Array) -> tuple[Array, Any]:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``.

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
    >>> mt.ops.gelu(np.array([-1.0, 0.0, 1.0])).numpy().round(3)
    array([-0.159,  0.   ,  0.841])
    """
    check_floats("gelu", x=x)
    probability = erf(x / 2**0.5)  # (1) Φ
    probability += 1
    probability /= 2
    y = x * probability  # (2)
    return y, (x, probability)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of x."""
    x, probability = saved
    # (1), (2) y = x * probability
    density = xp.exp(-0.5 * x * x)  # (5) φ
    density /= (2 * pi) ** 0.5
    slope = x * density  # (7)
    slope += probability
    d_x = slope * d_y  # (8)
    return (d_x,)


def reference(x: Tensor) -> Tensor:
    """Return the same function in elementary operations, with the integral of erf as a sum over 64 points."""
    check_floats("gelu", x=x)
    points, weights = np.polynomial.legendre.leggauss(64)  # from -1 to 1
    points, weights = asarray((points + 1) / 2).astype(x.dtype), asarray(weights / 2).astype(x.dtype)
    near = abs(x.data) < 9  # beyond, Φ rounds to 0 or 1
    u = where(near, x, 0.0) / 2**0.5
    density = (-((u * u).reshape(*x.shape, 1) * points**2)).exp()
    erf = u * (density * weights).sum(axis=-1) * (2 / pi**0.5)  # (3)
    return x * where(near, (1 + erf) / 2, (x.data > 0).astype(x.dtype))


gelu = Operation(forward, backward, reference=reference)
