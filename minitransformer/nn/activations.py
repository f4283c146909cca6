"""The activations of the feed-forward network besides ReLU."""

from __future__ import annotations

from math import pi
from typing import Any

from minitransformer.arrays import Array, erf, xp
from minitransformer.autograd import Operation

__all__ = ["ACTIVATIONS"]


def _silu(x: Array, beta: float = 1.0) -> tuple[Array, Any]:
    z = xp.exp(-beta * abs(x))  # no exponent is above 0
    s = xp.where(x >= 0, 1, z) / (1 + z)
    y = x * s
    return y, (y, s, beta)


def _silu_backward(saved: Any, d_y: Array) -> tuple[Array]:
    y, s, beta = saved
    return (d_y * (s + beta * y * (1 - s)),)


def _gelu(x: Array) -> tuple[Array, Any]:
    probability = (1 + erf(x / 2**0.5)) / 2
    return x * probability, (x, probability)


def _gelu_backward(saved: Any, d_y: Array) -> tuple[Array]:
    x, probability = saved
    density = xp.exp(-x * x / 2) / (2 * pi) ** 0.5
    return (d_y * (probability + x * density),)


silu, gelu = Operation(_silu, _silu_backward, name="silu"), Operation(_gelu, _gelu_backward, name="gelu")
ACTIVATIONS: dict[str, tuple[Operation, dict[str, float]]] = {
    "silu": (silu, {}),
    "gelu": (gelu, {}),
    "quick_gelu": (silu, {"beta": 1.702}),
}
"""The activations besides ReLU, with their options. ``ops.feed_forward`` contains ReLU."""
