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

from typing import Any, NamedTuple

from minitransformer.arrays import Array, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import affine, rows
from minitransformer.ops.rotary import composed as composed_rotary
from minitransformer.ops.rotary import rotary
from minitransformer.ops.scaled_dot_product_attention import composed as composed_attention
from minitransformer.ops.scaled_dot_product_attention import scaled_dot_product_attention as attention
from minitransformer.stand_ins import replaceable

__all__ = ["backward", "composed", "forward", "grouped_query_attention"]


class Sizes(NamedTuple):
    """How many columns and heads there are: H·Dk, G·Dk, G·Dv, H and G."""

    queries: int
    keys: int
    values: int
    n_heads: int
    n_kv_heads: int


def check(
    x: Any, memory: Any, w_in: Any, w_out: Any, b_in: Any, b_out: Any, n_heads: int, n_kv_heads: int, rotate: bool
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
    n_values = w_out.shape[0] // n_heads * n_kv_heads if w_out.ndim == 2 else 0
    head = (w_in.shape[-1] - n_values) // (n_heads + n_kv_heads) if w_in.ndim == 2 else 0
    sizes = Sizes(n_heads * head, n_kv_heads * head, n_values, n_heads, n_kv_heads)
    if (
        head < 1
        or x.ndim != 3
        or x.shape[-1] != w_in.shape[0]
        or (memory is not None and (memory.ndim != 3 or memory.shape[::2] != x.shape[::2]))
        or sum(sizes[:3]) != w_in.shape[1]
        or w_out.shape[0] % n_heads
        or (b_in is not None and b_in.shape != w_in.shape[1:])
        or (b_out is not None and b_out.shape != w_out.shape[1:])
    ):
        memory, b_in, b_out = (None if a is None else a.shape for a in (memory, b_in, b_out))
        raise ValueError(
            f"grouped_query_attention: x {x.shape}, memory {memory}, w_in {w_in.shape}, w_out {w_out.shape}, b_in "
            f"{b_in} and b_out {b_out} do not match for {n_heads} and {n_kv_heads} heads: expected (B, Tq, D), (B, Tk, "
            "D), (D, H Dk + G (Dk + Dv)), (H Dv, D) and biases as long as the columns, with Dk at least 1"
        )
    return sizes


def _products(x: Array, memory: Array | None, n_queries: int) -> list[tuple[Array, slice]]:
    """Return the factors of [Q | K | V], or of Q and [K | V]: an input, and columns of w_in."""
    return [(x, slice(None))] if memory is None else [(x, slice(n_queries)), (memory, slice(n_queries, None))]


def _by_head(projected: list[Array], sizes: Sizes) -> tuple[Array, Array, Array]:
    """Return views of the heads in [Q | K | V], or in Q and [K | V]: H of queries, G of keys and of values."""
    last = projected[-1]
    values = last.shape[-1] - sizes.values
    keys = last[..., values - sizes.keys : values]
    q, k = _heads(projected[0][..., : sizes.queries], sizes.n_heads), _heads(keys, sizes.n_kv_heads)
    return q, k, _heads(last[..., values:], sizes.n_kv_heads)


def _heads(x: Array, n_heads: int) -> Array:
    """Return a view with an axis of heads: (B, T, H * Dk) -> (B, H, T, Dk)."""
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-2, -3)


def _columns(heads: Array) -> Array:
    """Return heads side by side: (B, H, T, Dk) -> (B, T, H * Dk)."""
    return heads.swapaxes(-2, -3).reshape(len(heads), heads.shape[2], heads.shape[1] * heads.shape[3])


@replaceable
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
    rotate: bool = False,
    bias: Array | None = None,
) -> tuple[Array, Any]:
    """Return the output of H attentions to G heads of keys and values.

    Parameters
    ----------
    x, memory, b_in, b_out, mask, n_heads, causal, block_size
        As for ``multi_head_attention``.
    w_in : array, shape (D, H * Dk + G * (Dk + Dv))
        The projections of queries, keys and values, side by side.
    w_out : array, shape (H * Dv, D)
        The output projection.
    n_kv_heads : int
        The number of heads of keys and values, G.
    rotate : bool
        Whether queries and keys are turned by their positions, in self-attention. See ``rotary``.
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
    products = _products(x, memory, sizes.queries)
    projected = [affine(source, w_in[:, part], None if b_in is None else b_in[part]) for source, part in products]
    q, k, v = _by_head(projected, sizes)  # (1)
    (q_turned, saved_turn), (k_turned, _) = map(rotary.forward, (q, k)) if rotate else ((q, None), (k, None))  # (3)
    k_heads, v_heads = (xp.repeat(part, n_heads // n_kv_heads, axis=1) for part in (k_turned, v))  # (2)
    concat = xp.empty((*x.shape[:-1], w_out.shape[0]), dtype=x.dtype)
    options = {"mask": mask, "causal": causal, "block_size": block_size, "bias": bias}
    _, saved_heads = attention.forward(q_turned, k_heads, v_heads, **options, out=_heads(concat, n_heads))  # (4)
    y = affine(concat, w_out, b_out)
    return y, (x, memory, w_in, w_out, b_in is not None, b_out is not None, sizes, saved_turn, concat, saved_heads)


def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradients of x, memory, w_in, w_out, b_in and b_out."""
    x, memory, w_in, w_out, has_b_in, has_b_out, sizes, saved_turn, concat, saved_heads = saved
    products = _products(x, memory, sizes.queries)
    # y = concat @ w_out + b_out
    d_concat, d_w_out = (rows(d_y) @ w_out.T).reshape(concat.shape), rows(concat).T @ rows(d_y)
    # (4) o_h = Attention(q_h, k_h, v_h), written into the columns of concat
    d_q_turned, d_k_heads, d_v_heads = attention.backward(saved_heads, _heads(d_concat, sizes.n_heads))
    # (2) k and v, repeated for the heads that share them
    d_k_turned, d_v = sum_groups(d_k_heads, d_v_heads, sizes.n_kv_heads)  # (5)
    # (3) q, k = rotary(q), rotary(k)
    d_q, d_k = (d if saved_turn is None else rotary.backward(saved_turn, d)[0] for d in (d_q_turned, d_k_turned))  # (6)
    # (1) q, k and v are columns of [Q | K | V], or of Q and [K | V]
    columns = [_columns(d) for d in (d_q, d_k, d_v)]
    first = 3 if memory is None else 1
    d_projected = [xp.concatenate(some, axis=-1) for some in (columns[:first], columns[first:]) if some]
    # [Q | K | V] = x @ w_in + b_in
    parts = [(source, w_in[:, part], rows(d)) for (source, part), d in zip(products, d_projected, strict=True)]
    d_sources = [(d @ w.T).reshape(source.shape) for source, w, d in parts]
    d_w_in = xp.concatenate([rows(source).T @ d for source, _, d in parts], axis=1)
    d_b_in = xp.concatenate([d.sum(axis=0) for _, _, d in parts]) if has_b_in else None
    d_memory = None if memory is None else d_sources[1]
    return d_sources[0], d_memory, d_w_in, d_w_out, d_b_in, rows(d_y).sum(axis=0) if has_b_out else None


def composed(
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
    rotate: bool = False,
    bias: Array | None = None,
) -> Tensor:
    """Return the same function in elementary operations, all queries at once."""
    sizes = check(x, memory, w_in, w_out, b_in, b_out, n_heads, n_kv_heads, rotate)
    memory, first, parts = x if memory is None else memory, 0, []
    for source, width, n in zip((x, memory, memory), sizes[:3], (n_heads, n_kv_heads, n_kv_heads), strict=True):
        part = source @ w_in[:, first : first + width]
        part = part if b_in is None else part + b_in[first : first + width]
        parts.append(part.reshape(*source.shape[:-1], n, width // n).swapaxes(-2, -3))
        first += width
    q, k, v = parts
    q, k = (composed_rotary(q), composed_rotary(k)) if rotate else (q, k)
    head = [h * n_kv_heads // n_heads for h in range(n_heads)]
    y = composed_attention(q, k[:, head], v[:, head], mask, causal, block_size, bias)  # (B, H, Tq, Dv)
    y = y.swapaxes(-2, -3).reshape(*x.shape[:-1], w_out.shape[0]) @ w_out
    return y if b_out is None else y + b_out


grouped_query_attention = Operation(forward, backward, composed=composed)
