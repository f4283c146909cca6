"""RMSNorm: divides the features of each position by their root mean square, then scales them.

For each row x of D features, with gain g and a small ε:

    ν  = (1/D) Σ_i x_i²                              (1)        the mean square
    λ  = sqrt(ν + ε)                                 (2)        the root mean square
    x̂  = x / λ                                       (3)
    y  = g x̂                                         (4)

It is ``layer_norm`` without the mean and without the bias: for rows of mean 0 both compute the same.

Gradient. (4) is local to each feature; all rows r share the gain:

    d_g_i = Σ_r d_y_ri x̂_ri                          (9)
    d_x̂_i = d_y_i g_i                                (10)

x̂_i depends on every x_j: directly, and through λ, as ∂λ/∂x_j = (1/(2λ)) (2/D) x_j = x̂_j / D (6). Hence
∂x̂_i/∂x_j = (δ_ij - x̂_i x̂_j / D) / λ (7), and

    κ = mean(d_x̂ x̂)                                 (11)
    d_x_j = (d_x̂_j - x̂_j κ) / λ                      (12)

Up to ε, each row of d_x is orthogonal to x, because scaling x does not change y. Shifting x does change y, so the
gradients of a row need not sum to 0.

The algebra in full: docs/derivations/rms-norm.md.

Source: Root Mean Square Layer Normalization (Zhang and Sennrich, 2019).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes, row_dot, xp
from minitransformer.autograd import Operation, Tensor

check = Shapes("rms_norm", "x (..., D), gain (D,), D >= 1")


def forward(x: Array, gain: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return x divided by the root mean square over its last axis, times gain.

    Parameters
    ----------
    x : array, shape (..., D), D >= 1
        The inputs.
    gain : array, shape (D,)
        The scale of each feature.
    eps : float
        Added to the mean square, to avoid a division by 0 in a row of zeros.

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
    >>> mt.ops.rms_norm(np.array([[1.0, 5.0, -2.0, 6.0]]), gain=np.ones(4)).numpy().round(3)
    array([[ 0.246,  1.231, -0.492,  1.477]])
    """
    check(x, gain)
    mean_square = row_dot(x, x) / x.shape[-1]  # (1)
    rrms = 1 / xp.sqrt(mean_square + eps)  # (2) the reciprocal of λ
    x_hat = x * rrms  # (3)
    y = x_hat * gain  # (4)
    return y, (x_hat, rrms, gain)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array]:
    """Return the gradients of x and gain."""
    x_hat, rrms, gain = saved
    # (4) y = gain * x_hat
    d_gain = (d_y * x_hat).sum(axis=tuple(range(d_y.ndim - 1)))  # (9)
    d_x_hat = d_y * gain  # (10)
    # (1)-(3) x_hat = x / sqrt(mean(x * x) + eps)
    along = row_dot(d_x_hat, x_hat) / x_hat.shape[-1]  # (11) κ
    difference = xp.subtract(d_x_hat, x_hat * along, out=d_x_hat)
    d_x = xp.multiply(difference, rrms, out=difference)  # (12)
    return d_x, d_gain


def reference(x: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the same function in elementary operations."""
    check(x, gain)
    mean_square = (x * x).mean(axis=-1, keepdims=True)
    return gain * x / (mean_square + eps).sqrt()


rms_norm = Operation(forward, backward, reference=reference)
