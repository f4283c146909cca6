"""Scaled dot-product attention: each query takes a mean of the values, weighted by how well it matches their keys.

With queries q (Tq, Dk), keys k (Tk, Dk) and values v (Tk, Dv), separately for each batch entry and head:

    s = q kᵀ / sqrt(Dk)                              (1)        scores  (Tq, Tk)
    w = softmax(s)                                   (2)        weights (Tq, Tk); 0 where the mask is False
    y = w v                                          (3)        output  (Tq, Dv)

Gradient, from the output back. y_if = Σ_j w_ij v_jf, so

    d_w_ij = Σ_f d_y_if v_jf                         (10)       d_w = d_y vᵀ
    d_v_jf = Σ_i w_ij d_y_if                         (11)       d_v = wᵀ d_y

The backward pass of ``softmax`` turns d_w into d_s (12). The scores are s_ij = (1/sqrt(Dk)) Σ_a q_ia k_ja, so

    d_q_ia = (1/sqrt(Dk)) Σ_j d_s_ij k_ja            (13)       d_q = d_s k / sqrt(Dk)
    d_k_ja = (1/sqrt(Dk)) Σ_i d_s_ij q_ia            (14)       d_k = d_sᵀ q / sqrt(Dk)

Where the mask is False, w is 0, so d_s is 0 too. A query that may attend to nothing has weights, output and gradients
of 0.

In blocks. Row i of s, w and y needs row i of q and no other, so Tb queries at a time give the same result. Only the
scores and weights of one block β exist at once (15): memory grows as Tb Tk, not as Tq Tk. With several blocks the
weights are not kept; the backward pass computes them again. d_v and d_k are sums over the queries, and so over blocks:

    d_v = Σ_β w_βᵀ d_y_β        d_k = Σ_β d_s_βᵀ q_β / sqrt(Dk)        (16)

Causal: query i sees the keys j <= i. A block then skips all keys after its last query, which saves half of the work.

Bias: later models add constants such as ``alibi`` to the scores (17). They change none of the derivatives.

Source: Attention Is All You Need, equation (1) and section 3.2.3; for the blocks, Self-attention Does Not Need O(n²)
Memory (Rabe and Staats, 2021), here with blocks of queries only.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from minitransformer.arrays import Array, as_bias, as_optional_mask, check_floats, is_whole, matmul, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.masking import causal_mask
from minitransformer.ops.softmax import composed as composed_softmax
from minitransformer.ops.softmax import softmax

__all__ = ["backward", "composed", "forward", "scaled_dot_product_attention"]


def check(q: Any, k: Any, v: Any, causal: bool, block_size: Any) -> None:
    """Check the types and shapes of the arrays, and the block size."""
    check_floats("scaled_dot_product_attention", q=q, k=k, v=v)
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
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"scaled_dot_product_attention: causal attention needs as many queries as keys, found {q.shape[-2]} "
            f"and {k.shape[-2]}; pass a mask instead"
        )
    if block_size is not None and (not is_whole(block_size) or block_size < 1):
        raise ValueError(
            "scaled_dot_product_attention: block_size must be a whole number of at least 1, or None for all queries "
            f"at once, found {block_size!r}"
        )


def _blocks(t_q: int, t_k: int, causal: bool, block_size: int | None) -> list[tuple[slice, slice]]:
    """Return the queries of each block and the keys that they need; at least one block."""
    size = block_size or max(t_q, 1)
    queries = [slice(first, min(first + size, t_q)) for first in range(0, max(t_q, 1), size)]
    return [(block, slice(0, block.stop if causal else t_k)) for block in queries]


def _scores(q: Array, k: Array, bias: Array | None, queries: slice, keys: slice) -> Array:
    """Return the scores of one block: (..., Tb, Dk) @ (..., Dk, Tk)."""
    scores = matmul(q[..., queries, :], k[..., keys, :].swapaxes(-1, -2), scale=1 / sqrt(q.shape[-1]))  # (1)
    return scores if bias is None else xp.add(scores, _part(bias, queries, keys), out=scores)  # (17)


def _weights(scores: Array, mask: Array | None, causal: bool, queries: slice, keys: slice) -> Array:
    """Return the weights of one block, written over its scores."""
    weights: Array = softmax.forward(scores, mask=_block_of(mask, causal, queries, keys), out=scores)[0]  # (2)
    return weights


def _block_of(mask: Array | None, causal: bool, queries: slice, keys: slice) -> Array | None:
    """Return the mask (..., Tb, Tk) of a block."""
    seen = None if mask is None else _part(mask, queries, keys)
    if causal:
        earlier = xp.arange(queries.start, queries.stop)[:, None] >= xp.arange(keys.stop)
        seen = earlier if seen is None else seen & earlier
    return seen


def _part(x: Array, queries: slice, keys: slice) -> Array:
    """Return the part of an array (..., Tq, Tk) that belongs to a block; an axis of length 1 is kept."""
    x = x[..., queries, :] if x.shape[-2] > 1 else x
    return x[..., keys] if x.shape[-1] > 1 else x


def forward(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    block_size: int | None = None,
    out: Array | None = None,
    bias: Array | None = None,
) -> tuple[Array, Any]:
    """Return ``softmax(q @ k.T / sqrt(Dk) + bias) @ v``.

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
    causal : bool
        Whether query i may only see keys j <= i, in addition to the mask; needs Tq = Tk.
    block_size : int, optional
        How many queries to process at a time; all by default. Fewer need less memory for long sentences.
    out : array, shape (..., Tq, Dv), optional
        Where to write the output.
    bias : array, broadcastable to (..., Tq, Tk), optional
        Constants that are added to the scores.

    Returns
    -------
    y : array, shape (..., Tq, Dv)
        The outputs.
    saved : tuple
        What ``backward`` needs. With one block, its last entry is the weights (..., Tq, Tk).

    Raises
    ------
    TypeError
        If q, k or v is not floating-point, if their types differ, or if the mask is not boolean.
    ValueError
        If the shapes do not match, or block_size is not a whole number of at least 1.

    Examples
    --------
    >>> q = np.array([[8.0, 0.0]])
    >>> k = np.array([[4.0, 0.0], [0.0, 4.0]])  # the query matches the first key
    >>> v = np.array([[1.0], [2.0]])
    >>> mt.ops.scaled_dot_product_attention(q, k, v).numpy().round(3)
    array([[1.]])
    >>> mt.ops.scaled_dot_product_attention(q, k, v, np.array([[False, True]])).numpy()
    array([[2.]])
    """
    check(q, k, v, causal, block_size)
    t_q, t_k = q.shape[-2], k.shape[-2]
    bias = as_bias(bias, (*q.shape[:-1], t_k), q.dtype, "scaled_dot_product_attention")
    mask = as_optional_mask(mask, (*q.shape[:-1], t_k), "scaled_dot_product_attention")
    mask = None if mask is None else xp.atleast_2d(mask)
    y = xp.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype) if out is None else out
    blocks = _blocks(t_q, t_k, causal, block_size)
    for queries, keys in blocks:
        scores = _scores(q, k, bias, queries, keys)  # (1) s = q kᵀ / sqrt(Dk)
        weights = _weights(scores, mask, causal, queries, keys)  # (2) w = softmax(s)
        # (3) y = w v: (..., Tb, Tk) @ (..., Tk, Dv) -> (..., Tb, Dv)
        matmul(weights, v[..., keys, :], out=y[..., queries, :])
    return y, (q, k, v, weights if len(blocks) == 1 else (mask, causal, block_size, bias))


def backward(
    saved: Any,
    d_y: Array,
    out: tuple[Array | None, ...] = (None, None, None),
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v, written to ``out`` where given."""
    q, k, v, kept = saved
    pairs = zip((q, k, v), out, strict=True)
    d_q, d_k, d_v = (xp.empty(x.shape, x.dtype) if o is None else o for x, o in pairs)
    recompute = isinstance(kept, tuple)  # several blocks: forward kept no weights
    mask, causal, block_size, bias = kept if recompute else (None, False, None, None)
    # From the last block, which needs all keys and writes all of d_k and d_v, to the first.
    blocks = _blocks(q.shape[-2], k.shape[-2], causal, block_size)
    add = False
    for queries, keys in reversed(blocks):
        weights = _weights(_scores(q, k, bias, queries, keys), mask, causal, queries, keys) if recompute else kept
        d_rows = d_y[..., queries, :]
        # (3) y = weights @ v
        d_weights = matmul(d_rows, v[..., keys, :].swapaxes(-1, -2))  # (10)
        _product(weights.swapaxes(-1, -2), d_rows, out=d_v[..., keys, :], add=add)  # (11)
        # (2) weights = softmax(scores)
        (d_scores,) = softmax.backward((weights, -1), d_weights)  # (12)
        # (1) scores = q @ k.T / sqrt(Dk)
        d_products = xp.multiply(d_scores, 1 / sqrt(q.shape[-1]), out=d_scores)
        _product(d_products, k[..., keys, :], out=d_q[..., queries, :])  # (13)
        _product(d_products.swapaxes(-1, -2), q[..., queries, :], out=d_k[..., keys, :], add=add)  # (14)
        add = True  # the sums of (16)
    return d_q, d_k, d_v


def _product(x: Array, y: Array, out: Array, add: bool = False) -> None:
    """Write ``x @ y`` to out, or add it to out."""
    if add:
        out += matmul(x, y)
    else:
        matmul(x, y, out=out)


def composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Array | None = None,
    causal: bool = False,
    block_size: int | None = None,
    bias: Array | None = None,
) -> Tensor:
    """Return the same function in elementary operations, all queries at once."""
    check(q, k, v, causal, block_size)
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + as_bias(bias, scores.shape, q.dtype, "scaled_dot_product_attention")
    mask = as_optional_mask(mask, scores.shape, "scaled_dot_product_attention")
    if causal:
        mask = causal_mask(q.shape[-2]) if mask is None else mask & causal_mask(q.shape[-2])
    return composed_softmax(scores, mask=mask) @ v


scaled_dot_product_attention = Operation(forward, backward, composed=composed)
