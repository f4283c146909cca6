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

Causal: query i sees the keys j <= i. A block then skips all keys after its last query, nearly half
of the work.

Bias: later models add constants such as ``alibi`` to the scores (17). They change none of the derivatives.

Source: Attention Is All You Need, equation (1) and section 3.2.3; for the blocks, Self-attention Does Not Need O(n²)
Memory (Rabe and Staats, 2021), here with blocks of queries only.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

from minitransformer.arrays import Array, Shapes, as_bias, as_optional_mask, is_whole, matmul, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.masking import causal_mask
from minitransformer.ops.softmax import reference as reference_softmax
from minitransformer.ops.softmax import softmax

shapes = Shapes("scaled_dot_product_attention", "q (..., Tq, Dk), k (..., Tk, Dk), v (..., Tk, Dv), Dk >= 1")


def check(q: Any, k: Any, v: Any, causal: bool, block_size: Any) -> None:
    """Check the types and shapes of the arrays, and the block size."""
    shapes(q, k, v)
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


def scaled_scores(q: Array, k: Array, bias: Array | None) -> Array:
    """Return ``q @ k.T / sqrt(Dk) + bias``: (..., Tq, Dk) @ (..., Dk, Tk) -> (..., Tq, Tk)."""
    scores = matmul(q, k.swapaxes(-1, -2), scale=1 / sqrt(q.shape[-1]))  # (1)
    return scores if bias is None else xp.add(scores, bias, out=scores)  # (17)


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
        What ``backward`` needs; its last entry is the weights (..., Tq, Tk), or None with several blocks.

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
    shape = (*q.shape[:-1], k.shape[-2])
    bias = as_bias(bias, shape, q.dtype, "scaled_dot_product_attention")
    mask = as_optional_mask(mask, shape, "scaled_dot_product_attention")
    y = xp.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype) if out is None else out
    if block_size is not None and block_size < q.shape[-2]:
        # the caller may change the mask before the backward pass
        blocks = None if mask is None else mask.copy(), causal, block_size, bias
        for queries, _, inputs, seen, added in in_blocks(q, k, v, blocks):
            forward(*inputs, seen, bias=added, out=y[..., queries, :])
        return y, (q, k, v, blocks, None)
    if causal:
        mask = causal_mask(q.shape[-2]) if mask is None else mask & causal_mask(q.shape[-2])
    scores = scaled_scores(q, k, bias)  # (1) s = q kᵀ / sqrt(Dk)
    weights, _ = softmax.forward(scores, mask=mask, out=scores)  # (2) w = softmax(s)
    matmul(weights, v, out=y)  # (3) y = w v: (..., Tq, Tk) @ (..., Tk, Dv) -> (..., Tq, Dv)
    return y, (q, k, v, None, weights)


def backward(saved: Any, d_y: Array, out: tuple[Array | None, ...] = (None, None, None)) -> tuple[Array, ...]:
    """Return the gradients of q, k and v, written to ``out`` where given."""
    q, k, v, blocks, weights = saved
    if blocks is not None:
        d_q, d_k, d_v = backward_in_blocks(saved, d_y, out)
        return d_q, d_k, d_v
    d_q, d_k, d_v = (xp.empty(x.shape, x.dtype) if o is None else o for x, o in zip((q, k, v), out, strict=True))
    # (3) y = weights @ v
    d_weights = matmul(d_y, v.swapaxes(-1, -2))  # (10)
    matmul(weights.swapaxes(-1, -2), d_y, out=d_v)  # (11)
    # (2) weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)  # (12)
    # (1) scores = q @ k.T / sqrt(Dk)
    d_products = xp.multiply(d_scores, 1 / sqrt(q.shape[-1]), out=d_scores)
    matmul(d_products, k, out=d_q)  # (13)
    matmul(d_products.swapaxes(-1, -2), q, out=d_k)  # (14)
    return d_q, d_k, d_v


def in_blocks(
    q: Array, k: Array, v: Array, blocks: Any, last_first: bool = False
) -> Iterator[tuple[slice, slice, tuple[Array, Array, Array], Array | None, Array | None]]:
    """Yield the queries and keys of each block, and its parts of (q, k, v), of the mask and of the bias."""
    mask, causal, block_size, bias = blocks
    firsts = range(0, q.shape[-2], block_size)
    for first in reversed(firsts) if last_first else firsts:
        queries = slice(first, min(first + block_size, q.shape[-2]))
        keys = slice(0, queries.stop if causal else k.shape[-2])
        seen, added = (None if x is None else part_of(x, queries, keys) for x in (mask, bias))
        if causal:
            earlier = xp.arange(queries.start, queries.stop)[:, None] >= xp.arange(keys.stop)
            seen = earlier if seen is None else seen & earlier
        yield queries, keys, (q[..., queries, :], k[..., keys, :], v[..., keys, :]), seen, added


def part_of(x: Array, queries: slice, keys: slice) -> Array:
    """Return the part of a mask or bias (..., Tq, Tk) that belongs to a block; an axis of length 1 is kept."""
    x = xp.atleast_2d(x)
    x = x[..., queries, :] if x.shape[-2] > 1 else x
    return x[..., keys] if x.shape[-1] > 1 else x


def backward_in_blocks(saved: Any, d_y: Array, out: tuple[Array | None, ...]) -> tuple[Array, ...]:
    """Return the gradients of q, k and v, one block after the other: (16)."""
    q, k, v, blocks, _ = saved
    d_q, d_k, d_v = (xp.empty(x.shape, x.dtype) if o is None else o for x, o in zip((q, k, v), out, strict=True))
    # The last block needs all keys: it comes first and writes all of d_k and d_v. The others add to them.
    for queries, keys, inputs, seen, added in in_blocks(q, k, v, blocks, last_first=True):
        scores = scaled_scores(*inputs[:2], added)
        weights, _ = softmax.forward(scores, mask=seen, out=scores)
        saved, d_rows, d_q_rows = (*inputs, None, weights), d_y[..., queries, :], d_q[..., queries, :]
        if queries.stop == q.shape[-2]:
            backward(saved, d_rows, out=(d_q_rows, d_k, d_v))
            continue
        _, *more = backward(saved, d_rows, out=(d_q_rows, None, None))
        for sums, terms in zip((d_k[..., keys, :], d_v[..., keys, :]), more, strict=True):
            sums += terms
    return d_q, d_k, d_v


def reference(
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
    return reference_softmax(scores, mask=mask) @ v


scaled_dot_product_attention = Operation(forward, backward, reference=reference)
