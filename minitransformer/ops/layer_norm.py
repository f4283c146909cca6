"""Layer normalisation: each position's features brought to mean 0 and variance 1, then scaled and shifted.

For each row x of D features, with gain g, bias b and a small ε:

    μ  = (1/D) Σ_i x_i
    c  = x - μ                            (the centred features)
    r  = 1 / sqrt((1/D) Σ_i c_i² + ε)     (one over the standard deviation)
    x̂  = r c
    y  = g x̂ + b

Gradient. The last line is local to each feature; gain and bias are shared by all rows:

    d_g_i = Σ_rows d_y_i x̂_i        d_b_i = Σ_rows d_y_i        d_x̂_i = d_y_i g_i

x̂_i depends on every c_j: directly, and through r. From r = (v + ε)^(-1/2) with v = (1/D) Σ c²,
∂r/∂c_j = -½ r³ (2/D) c_j = -(1/D) r² x̂_j. Hence ∂x̂_i/∂c_j = r δ_ij - (1/D) r x̂_i x̂_j and

    d_c_j = r (d_x̂_j - x̂_j (1/D) Σ_i d_x̂_i x̂_i)

and since c = x - μ and μ takes 1/D from each feature, d_x_j = d_c_j - (1/D) Σ_i d_c_i. The x̂ sum to zero, so

    d_x_j = r (d_x̂_j - mean(d_x̂) - x̂_j mean(d_x̂ x̂))

Each row of d_x is orthogonal to the vector of ones (shifting x changes nothing) and, up to ε, to x̂ (scaling x
changes nothing).

Source: Attention Is All You Need, section 3.1; Layer Normalization (Ba, Kiros and Hinton, 2016).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, check_floats, sum_along, xp
from minitransformer.autograd import Operation, Tensor

__all__ = ["backward", "composed", "forward", "layer_norm"]


def forward(x: Array, gain: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return x normalised over its last axis, times gain, plus bias.

    Parameters
    ----------
    x : array, shape (..., D)
        The inputs.
    gain, bias : arrays, shape (D,)
        Scale and shift of each feature.
    eps : float
        Added to the variance, so that a row of equal features does not divide by 0.

    Returns
    -------
    y : array, shape (..., D)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, or not of the type of the others.
    ValueError
        If the shapes do not match.
    """
    check_floats("layer_norm", x=x, gain=gain, bias=bias)
    if x.ndim == 0 or x.shape[-1] == 0 or gain.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"layer_norm: x of shape {x.shape}, gain of shape {gain.shape} and bias of shape {bias.shape} "
            "do not match: expected (..., D), (D,) and (D,) with D at least 1"
        )
    n_features = x.shape[-1]
    x_hat = x - sum_along(x, -1) / n_features  # the centred features c, until they are scaled
    variance = xp.einsum("...i,...i->...", x_hat, x_hat)[..., None] / n_features
    r = 1 / xp.sqrt(variance + eps)
    x_hat *= r
    y = x_hat * gain
    y += bias
    return y, (x_hat, r, gain)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of x, gain and bias."""
    x_hat, r, gain = saved
    n_features = x_hat.shape[-1]
    # y = gain * x_hat + bias
    others = tuple(range(d_y.ndim - 1))
    d_gain = (d_y * x_hat).sum(axis=others)
    d_bias = d_y.sum(axis=others)
    d_x_hat = d_y * gain
    # x_hat = r * (x - mean(x)), r = 1 / sqrt(variance + eps)
    along = xp.einsum("...i,...i->...", d_x_hat, x_hat)[..., None] / n_features  # mean(d_x̂ x̂)
    d_x = d_x_hat
    d_x -= sum_along(d_x_hat, -1) / n_features  # mean(d_x̂)
    d_x -= x_hat * along
    d_x *= r
    return d_x, d_gain, d_bias


def composed(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the same function in elementary operations."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return gain * centred / (variance + eps).sqrt() + bias


layer_norm = Operation(forward, backward, composed=composed)
