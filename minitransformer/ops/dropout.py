"""Dropout: each entry is set to zero with probability p, and the others are scaled up to keep the mean.

With k_i = 1 for an entry that is kept, which happens with probability 1 - p, and 0 for one that is dropped:

    y_i = x_i k_i / (1 - p)         so that the expectation of y_i is x_i

Gradient. For a given draw of k, y is x times a constant:

    d_x_i = d_y_i k_i / (1 - p)

p is rounded to a multiple of 1/65,536, the resolution of the random numbers, and 1 - p is the rounded one's.

Source: Attention Is All You Need, section 5.4; Dropout (Srivastava et al., 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, random_bits, xp
from minitransformer.autograd import Operation, Tensor

__all__ = ["backward", "composed", "dropout", "forward"]


def _draw(shape: tuple[int, ...], p: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Return which entries are kept, and the factor for those."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout: the probability must be at least 0 and below 1, found {p}")
    threshold = min(round(p * 65536), 65535)
    return random_bits(rng, shape) >= threshold, 65536 / (65536 - threshold)


def forward(x: Array, p: float, rng: np.random.Generator) -> tuple[Array, Any]:
    """Return x with entries dropped at random.

    Parameters
    ----------
    x : array, any shape
        The inputs.
    p : float
        The probability of dropping an entry, 0 <= p < 1.
    rng : numpy.random.Generator
        Where the randomness comes from; it is advanced.

    Returns
    -------
    y : array, the shape of x
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    ValueError
        If p is not a probability below 1.
    """
    keep, scale = _draw(x.shape, p, rng)
    y = x * scale
    y *= keep
    return y, (keep, scale)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of x."""
    keep, scale = saved
    # y = x * keep * scale
    d_x = d_y * scale
    d_x *= keep
    return (d_x,)


def composed(x: Tensor, p: float, rng: np.random.Generator) -> Tensor:
    """Return the same function in elementary operations, with the same draw."""
    keep, scale = _draw(x.shape, p, rng)
    return x * xp.where(keep, scale, 0.0).astype(x.dtype)


dropout = Operation(forward, backward, composed=composed)
