"""The fastest forms of some element-wise functions."""

from __future__ import annotations

from minitransformer.arrays.namespace import Array, xp


def relu_in_place(x: Array) -> Array:
    """Return max(0, x), written over x."""
    return xp.maximum(x, xp.zeros(x.shape[-1:], dtype=x.dtype), out=x)  # with a scalar 0 NumPy is half as fast


def tanh_slope(tanh: Array) -> Array:
    """Return the derivative of tanh, 1 - tanh², from the values of tanh."""
    square = tanh * tanh
    return xp.subtract(1, square, out=square)
