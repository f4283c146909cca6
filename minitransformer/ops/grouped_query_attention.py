"""Grouped-query attention: multi-head attention in which several heads of queries share one of keys and values.

It is ``multi_head_attention``, with the same projections and the same gradients of them, and three changes that later
models made. There are G heads of keys and values, and H of queries, where G divides H:

    q_h = the columns of head h in Q                 (1)        h = 0 ... H - 1
    k_h, v_h = the columns of head ⌊h G / H⌋         (2)        in K, with G·Dk columns, and V, with G·Dv

With G = H it is multi-head attention, with G = 1 *multi-query attention*. Decoding reads G / H times as many keys and
values, which is most of what it reads. In self-attention, positions may turn q_h and k_h, by ``rotary``; and a constant
bias, such as that of ``alibi``, may be added to the scores:

    q_h, k_h = rotary(q_h), rotary(k_h)              (3)
    o_h = softmax(q_h k_hᵀ / sqrt(Dk) + bias_h) v_h  (4)

Gradient. Keys and values are used by all heads that share them, so their gradients are sums over these heads:

    d_k_g = Σ_(h shares g) d_k_h        d_v_g = Σ_(h shares g) d_v_h        (5)
    d_q_h, d_k_g = turned back by the backward pass of ``rotary``           (6)

The algebra in full: docs/derivations/grouped-query-attention.md.

Source: Fast Transformer Decoding: One Write-Head is All You Need (Shazeer, 2019); GQA (Ainslie et al., 2023).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from minitransformer.arrays import Array, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.heads import (
    Sizes,
    by_head,
    heads,
    project,
    project_backward,
    reference_output,
    reference_project,
    sizes_of,
)
from minitransformer.ops.linear import affine
from minitransformer.ops.linear import backward as linear_backward
from minitransformer.ops.rotary import PAPER, Rotation, rotary
from minitransformer.ops.rotary import reference as reference_rotary
from minitransformer.ops.scaled_dot_product_attention import reference as reference_attention
from minitransformer.ops.scaled_dot_product_attention import scaled_dot_product_attention as attention


def check(
    x: Any, memory: Any, w_in: Any, w_out: Any, b_in: Any, b_out: Any, n_heads: int, n_kv_heads: int, rotate: Any
) -> Sizes:
    """Check the arrays and the numbers of heads; return the sizes."""
    check_floats("grouped_query_attention", x=x, memory=memory, w_in=w_in, w_out=w_out, b_in=b_in, b_out=b_out)
    if not (is_whole(n_heads) and is_whole(n_kv_heads)) or n_kv_heads < 1 or n_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(
            "grouped_query_attention: n_heads and n_kv_heads must be whole numbers of at least 1, and n_kv_heads "
            f"must divide n_heads; found {n_heads!r} and {n_kv_heads!r}"
        )
    if rotate and memory is not None:
        raise ValueError("grouped_query_attention: rotate is for self-attention, found a memory; leave one of them out")
    sizes = sizes_of(x, memory, w_in, w_out, n_heads, n_kv_heads)
    biases = ((b_in, w_in), (b_out, w_out))
    if sizes is None or any(bias is not None and bias.shape != weight.shape[1:] for bias, weight in biases):
        memory, b_in, b_out = (None if a is None else a.shape for a in (memory, b_in, b_out))
        raise ValueError(
            f"grouped_query_attention: x {x.shape}, memory {memory}, w_in {w_in.shape}, w_out {w_out.shape}, b_in "
            f"{b_in} and b_out {b_out} do not match for {n_heads} and {n_kv_heads} heads: expected (B, Tq, D), (B, Tk, "
            "D), (D, H Dk + G (Dk + Dv)), (H Dv, D) and biases as long as the columns, with Dk at least 1"
        )
    return sizes


def columns(heads: Array) -> Array:
    """Return heads side by side: (B, H, T, Dk) -> (B, T, H * Dk)."""
    return heads.swapaxes(-2, -3).reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3])


def attend_by_group(q: Array, k: Array, v: Array, mask: Array | None, bias: Array | None, out: Array) -> Any:
    """Write (2) and (4) to ``out``, and return what attention has saved.

    No key is repeated, as a cache may be long: the queries of a group, one head after the other, are queries to one.
    """
    (n, n_heads, length, _), n_kv_heads = q.shape, k.shape[1]
    if n_heads == n_kv_heads:
        return attention.forward(q, k, v, mask, out=out, bias=bias)[1]
    scores, grouped = (n, n_heads, length, k.shape[2]), (n, n_kv_heads, n_heads // n_kv_heads * length)
    mask, bias = (x if x is None else xp.broadcast_to(x, scores).reshape(*grouped, k.shape[2]) for x in (mask, bias))
    y, (*saved, weights) = attention.forward(q.reshape(*grouped, q.shape[3]), k, v, mask, bias=bias)
    out[...] = y.reshape(out.shape)
    return *saved, weights.reshape(scores)


def sum_groups(d_k_heads: Array, d_v_heads: Array, n_kv_heads: int) -> tuple[Array, ...]:
    """Return the sums over the heads that share keys and values: (B, H, T, Dk) -> (B, G, T, Dk)."""
    groups = len(d_k_heads), n_kv_heads, d_k_heads.shape[1] // n_kv_heads
    return tuple(d.reshape(*groups, *d.shape[2:]).sum(axis=2) for d in (d_k_heads, d_v_heads))


def forward(
    x: Array,
    memory: Array | None,
    w_in: Array,
    w_out: Array,
    b_in: Array | None = None,
    b_out: Array | None = None,
    mask: Array | None = None,
    n_heads: int = 8,
    n_kv_heads: int = 8,
    causal: bool = False,
    block_size: int | None = None,
    rotate: bool | Rotation = False,
    bias: Array | None = None,
    cache: Any = None,
) -> tuple[Array, Any]:
    """Return the output of H attentions to G heads of keys and values.

    Parameters
    ----------
    x, memory, b_in, b_out, mask, n_heads, causal, block_size, cache
        As for ``multi_head_attention``.
    w_in : array, shape (D, H * Dk + G * (Dk + Dv))
        The projections of queries, keys and values, side by side.
    w_out : array, shape (H * Dv, D)
        The output projection.
    n_kv_heads : int
        The number of heads of keys and values, G.
    rotate : bool or Rotation
        Whether queries and keys are turned by their positions, in self-attention, and how. See ``rotary``.
    bias : array, broadcastable to (B, H, Tq, Tk), optional
        Constants that are added to the scores. See ``alibi``.

    Returns
    -------
    y : array, shape (B, Tq, D)
        The outputs.
    saved : tuple
        What ``backward`` needs; its last entry is the weights, with one block.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, if their types differ, or if the mask is not boolean.
    ValueError
        If the shapes or numbers of heads do not match.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, w_in, w_out = (rng.normal(size=shape) for shape in ((1, 5, 8), (8, 12), (8, 8)))
    >>> mt.ops.grouped_query_attention(x, None, w_in, w_out, n_heads=4, n_kv_heads=1).shape
    (1, 5, 8)
    """
    sizes = check(x, memory, w_in, w_out, b_in, b_out, n_heads, n_kv_heads, rotate)
    queries, keys_values = project(x, memory, w_in, b_in, sizes.queries, cache)
    q, k, v = by_head(queries, keys_values, sizes)  # (1)
    turn = partial(rotary.forward, rotation=rotate if isinstance(rotate, Rotation) else PAPER)
    if rotate and cache is not None:  # all rows have the cache's position: each is a sequence of its own
        turn = partial(turn, first=cache.position)
        q, k = q[..., None, :], k[..., None, :]
    (q_turned, saved_turn), (k_turned, _) = map(turn, (q, k)) if rotate else ((q, None), (k, None))  # (3)
    concat = xp.empty((*x.shape[:-1], w_out.shape[0]), dtype=x.dtype)
    if cache is None:
        k_heads, v_heads = (xp.repeat(part, n_heads // n_kv_heads, axis=1) for part in (k_turned, v))  # (2)
        options = {"mask": mask, "causal": causal, "block_size": block_size, "bias": bias}
        _, saved_heads = attention.forward(q_turned, k_heads, v_heads, **options, out=heads(concat, n_heads))  # (4)
    else:
        out = heads(concat, n_heads)
        keys, values = cache.extend(k_turned if v is None else k_turned.reshape(*v.shape[:-1], -1), v)
        saved_heads = attend_by_group(q_turned.reshape(*out.shape[:-1], -1), keys, values, mask, bias, out)
    y = affine(concat, w_out, b_out)
    saved_output = concat, w_out, b_out is not None
    return y, (x, memory, w_in, b_in is not None, sizes, saved_turn, saved_output, saved_heads)


def backward(saved: Any, d_y: Array, needs: tuple[bool, ...] = (True,) * 6) -> tuple[Array | None, ...]:
    """Return the gradients of x, memory, w_in, w_out, b_in and b_out; None for a matrix or input without need."""
    x, memory, w_in, has_b_in, sizes, saved_turn, saved_output, saved_heads = saved
    # y = concat @ w_out + b_out
    d_concat, d_w_out, d_b_out = linear_backward(saved_output, d_y, (True, needs[3]))
    # (4) o_h = Attention(q_h, k_h, v_h), written into the columns of concat
    d_q_turned, d_k_heads, d_v_heads = attention.backward(saved_heads, heads(d_concat, sizes.n_heads))
    # (2) k and v, repeated for the heads that share them
    d_k_turned, d_v = sum_groups(d_k_heads, d_v_heads, sizes.n_kv_heads)  # (5)
    # (3) q, k = rotary(q), rotary(k)
    d_q, d_k = (d if saved_turn is None else rotary.backward(saved_turn, d)[0] for d in (d_q_turned, d_k_turned))  # (6)
    # (1) q, k and v are columns of Q = x W_Q + b_Q and [K | V] = m [W_K | W_V] + [b_K | b_V]
    d_queries, d_keys, d_values = (columns(d) for d in (d_q, d_k, d_v))
    if memory is None:
        d_projected = xp.concatenate((d_queries, d_keys, d_values), axis=-1)
        d_x, d_w_in, d_b_in = linear_backward((x, w_in, has_b_in), d_projected, needs[::2])
        return d_x, None, d_w_in, d_w_out, d_b_in, d_b_out
    d_keys_values = xp.concatenate((d_keys, d_values), axis=-1)
    d_x, d_memory, d_w_in, d_b_in = project_backward((x, memory, w_in, has_b_in), d_queries, d_keys_values, needs)
    return d_x, d_memory, d_w_in, d_w_out, d_b_in, d_b_out


def reference(
    x: Tensor,
    memory: Tensor | None,
    w_in: Tensor,
    w_out: Tensor,
    b_in: Tensor | None = None,
    b_out: Tensor | None = None,
    mask: Array | None = None,
    n_heads: int = 8,
    n_kv_heads: int = 8,
    causal: bool = False,
    block_size: int | None = None,
    rotate: bool | Rotation = False,
    bias: Array | None = None,
) -> Tensor:
    """Return the same function in elementary operations, all queries at once."""
    sizes = check(x, memory, w_in, w_out, b_in, b_out, n_heads, n_kv_heads, rotate)
    q, k, v = reference_project(x, memory, w_in, b_in, sizes)
    if rotate:
        rotation = rotate if isinstance(rotate, Rotation) else PAPER
        q, k = (reference_rotary(part, rotation=rotation) for part in (q, k))
    head = [h * n_kv_heads // n_heads for h in range(n_heads)]
    y = reference_attention(q, k[:, head], v[:, head], mask, causal, block_size, bias)
    return reference_output(y, w_out, b_out)


grouped_query_attention = Operation(forward, backward, reference=reference)
