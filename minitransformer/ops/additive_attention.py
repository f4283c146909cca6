"""Additive attention: the score of a query and a key comes from a network with one hidden layer, not a dot product.

With queries q (Tq, Dq), keys k (Tk, Dkk), values v (Tk, Dv) and A hidden units, for each batch entry and head:

    Q_i  = q_i W_q        K_j = k_j W_k              (1)        (A)
    z_ij = Q_i + K_j + b        t_ij = tanh(z_ij)    (2)        (A), for each pair of a query and a key
    s_ij = t_ij · w_s        w = softmax(s)          (3)        scores, weights; 0 where the mask is False
    y_i  = Σ_j w_ij v_j                              (4)        output (Tq, Dv)

Q_i is computed once for each query and K_j once for each key. But tanh is applied to their sum, so all Tq Tk A hidden
units must be computed. The dot product of ``scaled_dot_product_attention`` needs Tq Tk numbers, one matrix product.

Gradient. The first steps are those of ``scaled_dot_product_attention``:

    d_w_ij = d_y_i · v_j                             (9)
    d_v_j  = Σ_i w_ij d_y_i                          (10)
    d_s_ij from d_w_ij, see ``softmax``              (11)

A score is the dot product of t_ij with w_s, which all pairs share; and tanh' = 1 - tanh²:

    d_w_s  = Σ_ij d_s_ij t_ij                        (12)
    d_z_ij = d_s_ij w_s (1 - t_ij²)                  (13)

z_ij contains query i for every j, key j for every i, and b for all pairs:

    d_Q_i = Σ_j d_z_ij        d_q_i = d_Q_i W_qᵀ        d_W_q = Σ_i q_iᵀ d_Q_i        (14), (17), (18)
    d_K_j = Σ_i d_z_ij        d_k_j = d_K_j W_kᵀ        d_W_k = Σ_j k_jᵀ d_K_j        (15), (19), (20)
    d_b   = Σ_ij d_z_ij                                                               (16)

Where the mask is False, w is 0, so d_s and d_z are 0. A query that may attend to nothing has weights 0, output 0 and
gradients 0. The algebra in full: docs/derivations/additive-attention.md.

Source: Attention Is All You Need, section 3.2.1; Neural Machine Translation by Jointly Learning to Align and Translate
(Bahdanau, Cho and Bengio, 2015), appendix A.1.2, where b is absent.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes, as_optional_mask, matmul, tanh_slope, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import affine, rows
from minitransformer.ops.softmax import reference as reference_softmax
from minitransformer.ops.softmax import softmax

check = Shapes(
    "additive_attention",
    "q (..., Tq, Dq), k (..., Tk, Dkk), v (..., Tk, Dv), w_q (Dq, A), w_k (Dkk, A), b (A,), w_s (A,)",
)


def forward(
    q: Array, k: Array, v: Array, w_q: Array, w_k: Array, b: Array, w_s: Array, mask: Array | None = None
) -> tuple[Array, Any]:
    """Return ``softmax(tanh(q_i @ w_q + k_j @ w_k + b) @ w_s) @ v``.

    Parameters
    ----------
    q : array, shape (..., Tq, Dq)
        Queries.
    k : array, shape (..., Tk, Dkk)
        Keys; Dkk may differ from Dq.
    v : array, shape (..., Tk, Dv)
        Values.
    w_q, w_k : arrays, shapes (Dq, A) and (Dkk, A)
        Matrices from queries and keys to the hidden units.
    b, w_s : arrays, shape (A,)
        The bias of the hidden units, and their weights in the score.
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
        If an array is not floating-point, the types differ, or the mask is not boolean.
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.normal(size=shape) for shape in ((2, 3), (4, 3), (4, 5)))
    >>> w_q, w_k, b, w_s = (rng.normal(size=shape) for shape in ((3, 6), (3, 6), 6, 6))
    >>> mt.ops.additive_attention(q, k, v, w_q, w_k, b, w_s).shape
    (2, 5)
    """
    check(q, k, v, w_q, w_k, b, w_s)
    mask = as_optional_mask(mask, (*q.shape[:-1], k.shape[-2]), "additive_attention")
    from_q = affine(q, w_q, None)[..., :, None, :]  # (1) Q
    from_k = affine(k, w_k, b)[..., None, :, :]  # (1) K + b
    z = from_q + from_k  # (2) (..., Tq, 1, A) + (..., 1, Tk, A) -> (..., Tq, Tk, A)
    hidden = xp.tanh(z, out=z)
    scores = (rows(hidden) @ w_s).reshape(hidden.shape[:-1])  # (3)
    weights, _ = softmax.forward(scores, mask=mask, out=scores)
    y = matmul(weights, v)  # (4)
    return y, (q, k, v, w_q, w_k, w_s, hidden, weights)


def backward(saved: Any, d_y: Array) -> tuple[Array, ...]:
    """Return the gradients of q, k, v, w_q, w_k, b and w_s."""
    q, k, v, w_q, w_k, w_s, hidden, weights = saved
    # (4) y = weights @ v
    d_weights = matmul(d_y, v.swapaxes(-1, -2))  # (9)
    d_v = matmul(weights.swapaxes(-1, -2), d_y)  # (10)
    # (3) scores = hidden @ w_s, weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)  # (11)
    d_w_s = d_scores.reshape(d_scores.size) @ rows(hidden)  # (12)
    # (2) hidden = tanh(z), z = from_q + from_k
    slope = tanh_slope(hidden)
    score_by_z = xp.multiply(slope, w_s, out=slope)  # ∂s/∂z
    d_z = xp.multiply(score_by_z, d_scores[..., None], out=score_by_z)  # (13)
    d_from_q, d_from_k = d_z.sum(axis=-2, keepdims=True), d_z.sum(axis=-3, keepdims=True)  # (14), (15)
    d_rows_q, d_rows_k = rows(d_from_q), rows(d_from_k)
    # (1) from_q = q @ w_q
    d_q = (d_rows_q @ w_q.T).reshape(q.shape)  # (17)
    d_w_q = rows(q).T @ d_rows_q  # (18)
    # (1) from_k = k @ w_k + b
    d_k = (d_rows_k @ w_k.T).reshape(k.shape)  # (19)
    d_w_k = rows(k).T @ d_rows_k  # (20)
    d_b = d_rows_k.sum(axis=0)  # (16)
    return d_q, d_k, d_v, d_w_q, d_w_k, d_b, d_w_s


def reference(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, b: Tensor, w_s: Tensor, mask: Array | None = None
) -> Tensor:
    """Return the same function in elementary operations."""
    check(q, k, v, w_q, w_k, b, w_s)
    mask = as_optional_mask(mask, (*q.shape[:-1], k.shape[-2]), "additive_attention")
    from_q, from_k = (q @ w_q)[..., :, None, :], (k @ w_k)[..., None, :, :]
    scores = ((from_q + from_k + b).tanh() * w_s).sum(axis=-1)
    return reference_softmax(scores, mask=mask) @ v


additive_attention = Operation(forward, backward, reference=reference)
