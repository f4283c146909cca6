"""Low-rank adaptation (LoRA): a fixed matrix, and beside it the product of two small ones, which are trained.

For x (..., D_in), W (D_in, D_out), A (D_in, r) and B (r, D_out), where r is far below D_in and D_out:

    z = α / r · x A                                  (1)        (..., r)
    y = x W + z B                                    (2)        (..., D_out)

It is ``linear`` with the matrix W + α / r A B, which has D_in D_out entries; A and B have r (D_in + D_out). At first B
is 0, so y is x W. α / r sets how far a step moves y; the paper keeps α fixed while it tries several ranks r.

Gradient, by the rules of ``linear``. z is in y through B, and x in y through W and in z through A:

    d_B = zᵀ d_y                                     (4)
    d_z = d_y Bᵀ                                     (5)
    d_A = α / r · xᵀ d_z                             (6)
    d_x = d_y Wᵀ + α / r · d_z Aᵀ                    (7)
    d_W = xᵀ d_y                                     (8)        not computed if W is fixed

The algebra in full: docs/derivations/low-rank-linear.md.

Source: LoRA: Low-Rank Adaptation of Large Language Models (Hu et al., 2021), section 4.1, equation (3).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import affine, rows

check = Shapes("low_rank_linear", "x (..., D_in), weight (D_in, D_out), a (D_in, r), b (r, D_out), r >= 1")


def forward(x: Array, weight: Array, a: Array, b: Array, alpha: float = 1.0) -> tuple[Array, Any]:
    """Return ``x @ (weight + alpha / r * a @ b)``, without that sum.

    Parameters
    ----------
    x : array, shape (..., D_in)
        The inputs.
    weight : array, shape (D_in, D_out)
        The matrix that is adapted.
    a, b : arrays, shapes (D_in, r) and (r, D_out), r >= 1
        The two factors of its change.
    alpha : float
        The scale of the change, α.

    Returns
    -------
    y : array, shape (..., D_out)
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
    >>> weight, a, b = np.eye(2), np.array([[1.0], [0.0]]), np.array([[0.0, 5.0]])
    >>> mt.ops.low_rank_linear(np.array([[1.0, 2.0]]), weight, a, b).numpy()
    array([[1., 7.]])
    """
    check(x, weight, a, b)
    scale = alpha / a.shape[1]
    z = scale * affine(x, a, None)  # (1)
    y = affine(x, weight, rows(z) @ b)  # (2)
    return y, (x, weight, a, b, scale, z)


def backward(saved: Any, d_y: Array, needs: tuple[bool, ...] = (True,) * 4) -> tuple[Array | None, ...]:
    """Return the gradients of x, weight, a and b; None for x or weight where it is not needed."""
    x, weight, a, b, scale, z = saved
    d_rows, x_rows = rows(d_y), rows(x)
    # (2) y = x @ weight + z @ b
    d_b = rows(z).T @ d_rows  # (4)
    d_weight = x_rows.T @ d_rows if needs[1] else None  # (8)
    # (1) z = scale * x @ a
    d_products = scale * (d_rows @ b.T)  # (5), times α / r
    d_a = x_rows.T @ d_products  # (6)
    d_x = (d_rows @ weight.T + d_products @ a.T).reshape(x.shape) if needs[0] else None  # (7)
    return d_x, d_weight, d_a, d_b


def reference(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0) -> Tensor:
    """Return the same function in elementary operations, with one matrix."""
    return x @ (weight + alpha / a.shape[1] * (a @ b))


low_rank_linear = Operation(forward, backward, reference=reference)
