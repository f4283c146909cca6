"""Dropout: each entry is set to zero with probability p, and the others are scaled up to keep the mean.

With k_i = 1 for an entry that is kept, which happens with probability 1 - p, and 0 for one that is dropped:

    y_i = x_i k_i / (1 - p)         so that the expectation of y_i is x_i

Gradient. For a given draw of k, y is x times a constant:

    d_x_i = d_y_i k_i / (1 - p)

In the Transformer the output of a sub-layer is dropped out just before it is added to the sub-layer's own input, the
residual. Both are done at once if the residual r is given: y_i = r_i + x_i k_i / (1 - p), d_r_i = d_y_i.

p is rounded to a multiple of 1/65,536, the resolution of the random numbers, and 1 - p is the rounded one's.

Source: Attention Is All You Need, section 5.4; Dropout (Srivastava et al., 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, check_floats, random_bits, xp
from minitransformer.autograd import Operation, Tensor

__all__ = ["backward", "composed", "dropout", "forward"]


def check_types(x: Any, rng: Any, residual: Any) -> None:
    """Refuse what is no generator, and arrays that are not floating-point or of two types."""
    check_floats("dropout", x=x, residual=residual)
    if not hasattr(rng, "integers"):
        raise TypeError(
            f"dropout: rng must be a numpy.random.Generator, such as np.random.default_rng(0), found "
            f"{type(rng).__name__}"
        )


def check(x: Any, p: float, residual: Any) -> int:
    """Refuse wrong input; return the threshold below which a random number of 16 bits drops an entry."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout: the probability must be at least 0 and below 1, found {p}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"dropout: x of shape {x.shape} and a residual of shape {residual.shape} do not match")
    return min(round(p * 65536), 65535)


def draw(x: Any, p: float, rng: np.random.Generator, residual: Any) -> tuple[Array, float]:
    """Return which entries are kept, and the factor for those."""
    threshold = check(x, p, residual)
    check_types(x, rng, residual)
    return random_bits(rng, x.shape) >= threshold, 65536 / (65536 - threshold)


def forward(x: Array, p: float, rng: np.random.Generator, residual: Array | None = None) -> tuple[Array, Any]:
    """Return x with entries dropped at random, plus the residual if there is one.

    Parameters
    ----------
    x : array, any shape
        The inputs.
    p : float
        The probability of dropping an entry, 0 <= p < 1.
    rng : numpy.random.Generator
        Where the randomness comes from; it is advanced.
    residual : array, the shape of x, optional
        What is added.

    Returns
    -------
    y : array, the shape of x
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If rng is no generator, or x or the residual is not floating-point, or they are of two types.
    ValueError
        If p is not a probability below 1, or the residual has another shape.
    """
    keep, scale = draw(x, p, rng, residual)
    y = x * scale
    y *= keep
    if residual is not None:
        y += residual
    return y, (keep, scale, residual is not None)


def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradients of x and of the residual."""
    keep, scale, has_residual = saved
    # y = residual + x * keep * scale
    d_x = d_y * scale
    d_x *= keep
    return d_x, None, None, d_y.copy() if has_residual else None


def composed(x: Tensor, p: float, rng: np.random.Generator, residual: Tensor | None = None) -> Tensor:
    """Return the same function in elementary operations, with the same draw."""
    keep, scale = draw(x, p, rng, residual)
    y = x * xp.where(keep, scale, 0.0).astype(x.dtype)
    return y if residual is None else residual + y


dropout = Operation(forward, backward, composed=composed)
