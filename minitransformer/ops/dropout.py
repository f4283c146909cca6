"""Dropout: each entry is set to zero with probability p, and the others are scaled up to keep the mean.

For each entry a random integer u_i from 0 to 65,535 is drawn, and the entry is kept if u_i is at least the threshold η.
So p is rounded to a multiple of 1/65,536. Kept entries are multiplied by γ: the expected value of γ χ_i x_i is x_i.

    η   = min(round(65536 p), 65535)                 (1)
    χ_i = 1 if u_i >= η, else 0                      (2)
    γ   = 65536 / (65536 - η)                        (3)        1 / (1 - p), with the rounded p
    y_i = ρ_i + γ χ_i x_i                            (4)

ρ is the residual if it is given, else 0. In the Transformer, dropout is applied to the output of a sub-layer, just
before the sub-layer's input is added; this operation does both.

Gradient. For a given draw of χ, y is x times a constant, plus ρ:

    d_x_i = γ χ_i d_y_i                              (10)
    d_ρ_i = d_y_i                                    (11)

The algebra in full: docs/derivations/dropout.md.

Source: Attention Is All You Need, section 5.4; Dropout (Srivastava et al., 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, check_floats, random_bits, xp
from minitransformer.autograd import Operation, Tensor


def check(x: Any, p: float, rng: Any, residual: Any) -> None:
    """Reject a wrong probability or generator, and arrays whose shapes or types do not match."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout: the probability must be at least 0 and below 1, found {p}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"dropout: x of shape {x.shape} and a residual of shape {residual.shape} do not match")
    check_floats("dropout", x=x, residual=residual)
    if not hasattr(rng, "integers"):
        raise TypeError(
            f"dropout: rng must be a numpy.random.Generator, such as np.random.default_rng(0), found "
            f"{type(rng).__name__}"
        )


def threshold(p: float) -> int:
    """Return the threshold (1): a random 16-bit number below it drops an entry."""
    return min(round(p * 65536), 65535)


def draw(x: Any, p: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Return which entries are kept (2), and their scale factor (3)."""
    return random_bits(rng, x.shape) >= threshold(p), 65536 / (65536 - threshold(p))


def forward(x: Array, p: float, rng: np.random.Generator, residual: Array | None = None) -> tuple[Array, Any]:
    """Return x with entries dropped at random, plus the residual if there is one.

    Parameters
    ----------
    x : array, any shape
        The inputs.
    p : float
        The probability of dropping an entry, 0 <= p < 1.
    rng : numpy.random.Generator
        The source of randomness; it is advanced.
    residual : array, the shape of x, optional
        Added to the result.

    Returns
    -------
    y : array, the shape of x
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If rng is not a generator, x or the residual is not floating-point, or their types differ.
    ValueError
        If p is not a probability below 1, or the residual has another shape.

    Examples
    --------
    >>> mt.ops.dropout(np.ones(8), 0.5, np.random.default_rng(0)).numpy()
    array([2., 2., 2., 2., 0., 0., 2., 2.])
    """
    check(x, p, rng, residual)
    keep, scale = draw(x, p, rng)  # (2), (3)
    # (4) y = residual + scale * keep * x
    scaled = xp.asarray(x * scale)
    y = xp.multiply(scaled, keep, out=scaled)
    if residual is not None:
        y += residual
    return y, (keep, scale, residual is not None)


def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradients of x and of the residual."""
    keep, scale, has_residual = saved
    # (4) y = residual + scale * keep * x
    scaled = xp.asarray(d_y * scale)
    d_x = xp.multiply(scaled, keep, out=scaled)  # (10)
    d_residual = d_y.copy() if has_residual else None  # (11)
    return d_x, None, None, d_residual


def reference(x: Tensor, p: float, rng: np.random.Generator, residual: Tensor | None = None) -> Tensor:
    """Return the same function in elementary operations, with the same draw."""
    check(x, p, rng, residual)
    keep, scale = draw(x, p, rng)
    y = x * xp.where(keep, scale, 0.0).astype(x.dtype)
    return y if residual is None else residual + y


dropout = Operation(forward, backward, reference=reference)
