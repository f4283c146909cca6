"""Layer normalisation: brings the features of each position to mean 0 and variance 1, then scales and shifts them.

For each row x of D features, with gain g, bias b and a small ε:

    μ  = (1/D) Σ_i x_i                               (1)
    c  = x - μ                                       (2)        the centred features
    var = (1/D) Σ_i c_i²                             (3)        their variance
    σ  = sqrt(var + ε)                               (4)        their standard deviation
    x̂  = c / σ                                       (5)
    y  = g x̂ + b                                     (6)

The computed μ has a rounding error δ. Far from 0, δ can exceed the spread of the features: if they are all equal, x̂
would be -δ / sqrt(δ² + ε) instead of 0. So (1) and (2) are applied a second time, to c, whose mean is exactly -δ.

Gradient. (6) is local to each feature; all rows r share gain and bias:

    d_b_i = Σ_r d_y_ri                               (14)
    d_g_i = Σ_r d_y_ri x̂_ri                          (15)
    d_x̂_i = d_y_i g_i                                (16)

x̂_i depends on every c_j: directly, and through σ, as ∂σ/∂c_j = (1/(2σ)) (2/D) c_j = x̂_j / D (10). Hence
∂x̂_i/∂c_j = (δ_ij - x̂_i x̂_j / D) / σ (11), and

    d_c_j = (d_x̂_j - x̂_j κ) / σ                      (17)
    κ     = (1/D) Σ_i d_x̂_i x̂_i                      (18)

and since c = x - μ and ∂μ/∂x_j = 1/D, d_x_j = d_c_j - (1/D) Σ_i d_c_i. The x̂ sum to 0, so

    d_x_j = (d_x̂_j - mean(d_x̂) - x̂_j κ) / σ          (21)

Each row of d_x is orthogonal to the vector of ones, because shifting x does not change y, and up to ε to x̂, because
scaling x does not change y.

Source: Attention Is All You Need, section 3.1; Layer Normalization (Ba, Kiros and Hinton, 2016).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes, row_dot, sum_along, xp
from minitransformer.autograd import Operation, Tensor

check = Shapes("layer_norm", "x (..., D), gain (D,), bias (D,), D >= 1")


def forward(x: Array, gain: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return x normalised over its last axis, times gain, plus bias.

    Parameters
    ----------
    x : array, shape (..., D), D >= 1
        The inputs.
    gain, bias : arrays, shape (D,)
        Scale and shift of each feature.
    eps : float
        Added to the variance, to avoid a division by 0 in a row of equal features.

    Returns
    -------
    y : array, shape (..., D)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, or if their types differ.
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> y = mt.ops.layer_norm(np.array([[1.0, 2.0, 6.0]]), gain=np.ones(3), bias=np.zeros(3))
    >>> y.numpy().round(3)
    array([[-0.926, -0.463,  1.389]])
    """
    check(x, gain, bias)
    n_features = x.shape[-1]
    centred = x - sum_along(x, -1) / n_features  # (1), (2)
    centred -= sum_along(centred, -1) / n_features  # the rounding error of the mean
    variance = row_dot(centred, centred) / n_features  # (3)
    rstd = 1 / xp.sqrt(variance + eps)  # (4) the reciprocal of σ
    x_hat = xp.multiply(centred, rstd, out=centred)  # (5)
    y = x_hat * gain  # (6)
    y += bias
    return y, (x_hat, rstd, gain)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of x, gain and bias."""
    x_hat, rstd, gain = saved
    n_features = x_hat.shape[-1]
    # (6) y = gain * x_hat + bias
    others = tuple(range(d_y.ndim - 1))
    d_gain = (d_y * x_hat).sum(axis=others)  # (15)
    d_bias = d_y.sum(axis=others)  # (14)
    d_x_hat = d_y * gain  # (16)
    # (1)-(5) x_hat = (x - mean(x)) / sqrt(variance + eps)
    along = row_dot(d_x_hat, x_hat) / n_features  # mean(d_x̂ x̂)
    mean = sum_along(d_x_hat, -1) / n_features  # mean(d_x̂)
    difference = xp.subtract(d_x_hat, mean, out=d_x_hat)
    difference -= x_hat * along
    d_x = xp.multiply(difference, rstd, out=difference)  # (21)
    return d_x, d_gain, d_bias


def reference(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the same function in elementary operations."""
    check(x, gain, bias)
    centred = x - x.mean(axis=-1, keepdims=True)
    centred = centred - centred.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return gain * centred / (variance + eps).sqrt() + bias


layer_norm = Operation(forward, backward, reference=reference)
