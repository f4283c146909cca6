"""Scaled dot-product attention: each query gathers values, weighted by how well it matches their keys.

With queries q (Tq, Dk), keys k (Tk, Dk) and values v (Tk, Dv), in every batch and head alike:

    s = q kᵀ / sqrt(Dk)            scores  (Tq, Tk)
    w = softmax(s)                 weights (Tq, Tk), along the keys; exactly 0 where the mask is False
    y = w v                        output  (Tq, Dv)

Gradient, from the output backwards. y_ic = Σ_j w_ij v_jc, so

    d_w_ij = Σ_c d_y_ic v_jc       d_w = d_y vᵀ
    d_v_jc = Σ_i w_ij d_y_ic       d_v = wᵀ d_y

The softmax of each row (see ``softmax``):

    d_s_ij = w_ij (d_w_ij - Σ_l d_w_il w_il)

The scores s_ij = (1/sqrt(Dk)) Σ_c q_ic k_jc:

    d_q_ic = (1/sqrt(Dk)) Σ_j d_s_ij k_jc       d_q = d_s k / sqrt(Dk)
    d_k_jc = (1/sqrt(Dk)) Σ_i d_s_ij q_ic       d_k = d_sᵀ q / sqrt(Dk)

Where the mask is False w is 0, so d_s is 0 and nothing flows. A query that may attend to nothing has weights 0,
output 0 and gradients 0.

Source: Attention Is All You Need, equation (1) and section 3.2.3.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from minitransformer.arrays import Array, as_mask, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops import masking, softmax

__all__ = ["backward", "composed", "forward", "scaled_dot_product_attention"]


def _check(q: Any, k: Any, v: Any) -> None:
    if (
        min(q.ndim, k.ndim, v.ndim) < 2
        or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        or q.shape[-1] != k.shape[-1]
        or k.shape[-2] != v.shape[-2]
        or q.shape[-1] == 0
    ):
        raise ValueError(
            f"scaled_dot_product_attention: q of shape {q.shape}, k of shape {k.shape} and v of shape {v.shape} "
            "do not match: expected (..., Tq, Dk), (..., Tk, Dk) and (..., Tk, Dv) with the same leading axes "
            "and Dk at least 1"
        )


def forward(q: Array, k: Array, v: Array, mask: Array | None = None, out: Array | None = None) -> tuple[Array, Any]:
    """Return ``softmax(q @ k.T / sqrt(Dk)) @ v``.

    Parameters
    ----------
    q : array, shape (..., Tq, Dk)
        Queries.
    k : array, shape (..., Tk, Dk)
        Keys.
    v : array, shape (..., Tk, Dv)
        Values.
    mask : boolean array, broadcastable to (..., Tq, Tk), optional
        True = may attend.
    out : array, shape (..., Tq, Dv), optional
        Where to write the output.

    Returns
    -------
    y : array, shape (..., Tq, Dv)
        The outputs.
    saved : tuple
        What ``backward`` needs; its last entry is the weights (..., Tq, Tk).

    Raises
    ------
    TypeError
        If the mask is not boolean.
    ValueError
        If the shapes do not match.
    """
    _check(q, k, v)
    scores = xp.matmul(q, k.swapaxes(-1, -2))  # (..., Tq, Dk) @ (..., Dk, Tk) -> (..., Tq, Tk)
    scores *= 1 / sqrt(q.shape[-1])
    if mask is not None:
        mask = as_mask(mask, scores.shape, "scaled_dot_product_attention")
        xp.copyto(scores, -xp.inf, where=~mask)
    weights, _ = softmax.forward(scores)
    y = xp.matmul(weights, v, out=out)  # (..., Tq, Tk) @ (..., Tk, Dv) -> (..., Tq, Dv)
    return y, (q, k, v, weights)


def backward(saved: Any, d_y: Array, out: tuple[Array | None, ...] = (None, None, None)) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v; ``out`` may say where to write them."""
    q, k, v, weights = saved
    out_q, out_k, out_v = out
    # y = weights @ v
    d_weights = xp.matmul(d_y, v.swapaxes(-1, -2))
    d_v = xp.matmul(weights.swapaxes(-1, -2), d_y, out=out_v)
    # weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)
    # scores = q @ k.T / sqrt(Dk)
    d_scores *= 1 / sqrt(q.shape[-1])
    d_q = xp.matmul(d_scores, k, out=out_q)
    d_k = xp.matmul(d_scores.swapaxes(-1, -2), q, out=out_k)
    return d_q, d_k, d_v


def composed(q: Tensor, k: Tensor, v: Tensor, mask: Array | None = None) -> Tensor:
    """Return the same function in elementary operations."""
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])
    if mask is None:
        return softmax.composed(scores) @ v
    # A row that may attend to nothing has no softmax: let it attend to all, then drop its output.
    mask = as_mask(mask, scores.shape, "scaled_dot_product_attention")
    sees_nothing = ~xp.broadcast_to(mask, scores.shape).any(axis=-1, keepdims=True)
    weights = softmax.composed(masking.composed(scores, mask | sees_nothing))
    return (weights * (~sees_nothing).astype(q.dtype)) @ v


scaled_dot_product_attention = Operation(forward, backward, composed=composed)
