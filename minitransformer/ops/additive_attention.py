"""Additive attention: a small network with one hidden layer, not a dot product, says how well a query matches a key.

With queries q (Tq, Dq), keys k (Tk, Dkk) and values v (Tk, Dv), in every batch and head alike, and A hidden units:

    z_ij = q_i W_q + k_j W_k + b         (A), for each pair of a query and a key
    t_ij = tanh(z_ij)                    (A)
    s_ij = t_ij · w                      scores  (Tq, Tk)
    p    = softmax(s)                    weights (Tq, Tk), along the keys; exactly 0 where the mask is False
    y    = p v                           output  (Tq, Dv)

q_i W_q is worked out once for each query and k_j W_k once for each key; but the tanh stands between their sum and w, so
that all Tq Tk A hidden units must be made. The dot product of ``scaled_dot_product_attention`` makes Tq Tk numbers, in one matrix product.

Gradient, from the output backwards. The last two lines are those of ``scaled_dot_product_attention``:

    d_p = d_y vᵀ       d_v = pᵀ d_y       d_s_ij = p_ij (d_p_ij - Σ_l d_p_il p_il)

A score is a dot product of w, which all pairs share, with t_ij; and tanh' = 1 - tanh²:

    d_w = Σ_ij d_s_ij t_ij               d_t_ij = d_s_ij w               d_z_ij = d_s_ij w (1 - t_ij²)

Query i is in z_ij for every j, key j for every i, b in all of them. So what reaches a projection is summed first:

    d_(q_i W_q) = Σ_j d_z_ij             d_q_i = Σ_j d_z_ij W_qᵀ         d_W_q = Σ_i q_iᵀ Σ_j d_z_ij
    d_(k_j W_k) = Σ_i d_z_ij             d_k_j = Σ_i d_z_ij W_kᵀ         d_W_k = Σ_j k_jᵀ Σ_i d_z_ij
    d_b = Σ_ij d_z_ij

Where the mask is False p is 0, so d_s and d_z are 0 and nothing flows. A query that may attend to nothing has weights
0, output 0 and gradients 0. The algebra in full: docs/derivations/additive-attention.md.

Source: Attention Is All You Need, section 3.2.1; Neural Machine Translation by Jointly Learning to Align and Translate
(Bahdanau, Cho and Bengio, 2015), appendix A.1.2, where b is absent.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, as_mask, check_floats, matmul, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import rows
from minitransformer.ops.softmax import composed as composed_softmax
from minitransformer.ops.softmax import softmax

__all__ = ["additive_attention", "backward", "composed", "forward"]


def _checked(q: Any, k: Any, v: Any, w_q: Any, w_k: Any, b: Any, w: Any, mask: Any) -> Array | None:
    """Refuse what does not match; return the mask."""
    check_floats("additive_attention", q=q, k=k, v=v, w_q=w_q, w_k=w_k, b=b, w=w)
    if (
        min(q.ndim, k.ndim, v.ndim) < 2
        or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        or k.shape[-2] != v.shape[-2]
    ):
        raise ValueError(
            f"additive_attention: q of shape {q.shape}, k of shape {k.shape} and v of shape {v.shape} do not match: "
            "expected (..., Tq, Dq), (..., Tk, Dkk) and (..., Tk, Dv) with the same leading axes"
        )
    if (
        not b.ndim == w.ndim == 1
        or b.shape != w.shape
        or w_q.shape != q.shape[-1:] + w.shape
        or (w_k.shape != k.shape[-1:] + w.shape)
    ):
        raise ValueError(
            f"additive_attention: w_q of shape {w_q.shape}, w_k of shape {w_k.shape}, b of shape {b.shape} and w of "
            f"shape {w.shape} do not match: expected ({q.shape[-1]}, A), ({k.shape[-1]}, A), (A,) and (A,)"
        )
    return None if mask is None else as_mask(mask, (*q.shape[:-1], k.shape[-2]), "additive_attention")


def forward(
    q: Array, k: Array, v: Array, w_q: Array, w_k: Array, b: Array, w: Array, mask: Array | None = None
) -> tuple[Array, Any]:
    """Return ``softmax(tanh(q_i @ w_q + k_j @ w_k + b) @ w) @ v``.

    Parameters
    ----------
    q : array, shape (..., Tq, Dq)
        Queries.
    k : array, shape (..., Tk, Dkk)
        Keys; they need not be as long as queries.
    v : array, shape (..., Tk, Dv)
        Values.
    w_q, w_k : arrays, shapes (Dq, A) and (Dkk, A)
        From queries and keys to the hidden units.
    b, w : arrays, shape (A,)
        The bias of the hidden units, and their shares in the score.
    mask : boolean array, broadcastable to (..., Tq, Tk), optional
        True = may attend.

    Returns
    -------
    y : array, shape (..., Tq, Dv)
        The outputs.
    saved : tuple
        What ``backward`` needs. Its last entry is the weights (..., Tq, Tk).

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, or not of the type of the others, or the mask not boolean.
    ValueError
        If the shapes do not match.
    """
    mask = _checked(q, k, v, w_q, w_k, b, w, mask)
    from_q = (rows(q) @ w_q).reshape(*q.shape[:-1], 1, w.size)
    from_k = (rows(k) @ w_k + b).reshape(*k.shape[:-2], 1, k.shape[-2], w.size)
    hidden = from_q + from_k  # (..., Tq, 1, A) + (..., 1, Tk, A) -> (..., Tq, Tk, A)
    xp.tanh(hidden, out=hidden)
    scores = (rows(hidden) @ w).reshape(hidden.shape[:-1])
    weights, _ = softmax.forward(scores, mask=mask, out=scores)
    return matmul(weights, v), (q, k, v, w_q, w_k, w, hidden, weights)


def backward(saved: Any, d_y: Array) -> tuple[Array, ...]:
    """Return the gradients of q, k, v, w_q, w_k, b and w."""
    q, k, v, w_q, w_k, w, hidden, weights = saved
    # y = weights @ v
    d_weights = matmul(d_y, v.swapaxes(-1, -2))
    d_v = matmul(weights.swapaxes(-1, -2), d_y)
    # weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)
    # scores = hidden @ w
    d_w = d_scores.reshape(d_scores.size) @ rows(hidden)
    # hidden = tanh(from_q + from_k)
    d_hidden = hidden * hidden
    xp.subtract(1, d_hidden, out=d_hidden)
    d_hidden *= w
    d_hidden *= d_scores[..., None]
    d_from_q, d_from_k = rows(d_hidden.sum(axis=-2)), rows(d_hidden.sum(axis=-3))
    # from_q = q @ w_q
    d_q = (d_from_q @ w_q.T).reshape(q.shape)
    d_w_q = rows(q).T @ d_from_q
    # from_k = k @ w_k + b
    d_k = (d_from_k @ w_k.T).reshape(k.shape)
    d_w_k = rows(k).T @ d_from_k
    d_b = d_from_k.sum(axis=0)
    return d_q, d_k, d_v, d_w_q, d_w_k, d_b, d_w


def composed(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, b: Tensor, w: Tensor, mask: Array | None = None
) -> Tensor:
    """Return the same function in elementary operations."""
    mask = _checked(q, k, v, w_q, w_k, b, w, mask)
    from_q, from_k = (q @ w_q)[..., :, None, :], (k @ w_k)[..., None, :, :]
    scores = ((from_q + from_k + b).tanh() * w).sum(axis=-1)
    return composed_softmax(scores, mask=mask) @ v


additive_attention = Operation(forward, backward, composed=composed)
