"""Multi-head attention: several attentions side by side, each on its own projection of the inputs.

Queries come from x (B, Tq, D), keys and values from the memory (B, Tk, D), which is x itself in self-attention:

    Q = x W_Q          K = memory W_K          V = memory W_V
    head_h = Attention(Q_h, K_h, V_h)                          h = 0 ... H-1; see ``scaled_dot_product_attention``
    y = Concat(head_0, ..., head_(H-1)) W_O

Head h owns columns h·Dk to (h+1)·Dk - 1 of Q and K, and h·Dv to (h+1)·Dv - 1 of V: "head" is a name for a slice, so
that all heads of a projection are one matrix product. W_Q (D, H·Dk), W_K (D, H·Dk) and W_V (D, H·Dv) stand side by
side in one matrix, w_in = [W_Q | W_K | W_V], so that in self-attention all three are one product.

Gradient, from the output backwards, by the rules of ``linear`` and ``scaled_dot_product_attention``:

    d_concat = d_y W_Oᵀ            d_W_O = concatᵀ d_y
    d_Q_h, d_K_h, d_V_h            from d_head_h, by attention's backward pass
    d_x      = d_Q W_Qᵀ            d_memory = d_K W_Kᵀ + d_V W_Vᵀ          (in self-attention d_x is the sum of both)
    d_W_Q    = xᵀ d_Q              d_W_K = memoryᵀ d_K          d_W_V = memoryᵀ d_V

Source: Attention Is All You Need, section 3.2.2. The paper's projections have no biases; b_in and b_out are optional.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, check_floats, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import rows
from minitransformer.ops.scaled_dot_product_attention import composed as composed_attention
from minitransformer.ops.scaled_dot_product_attention import scaled_dot_product_attention as attention

__all__ = ["backward", "composed", "forward", "multi_head_attention"]


def _sizes(x: Any, memory: Any, w_in: Any, w_out: Any, b_in: Any, b_out: Any, n_heads: int) -> tuple[int, int]:
    """Check the shapes and return H·Dk and H·Dv."""
    check_floats("multi_head_attention", x=x, memory=memory, w_in=w_in, w_out=w_out, b_in=b_in, b_out=b_out)
    d_values = w_out.shape[0] if w_out.ndim == 2 else -1
    d_keys = (w_in.shape[1] - d_values) // 2 if w_in.ndim == 2 else -1
    if (
        min(d_values, d_keys) < 0
        or n_heads < 1
        or x.ndim != 3
        or x.shape[-1] != w_in.shape[0]
        or (memory is not None and (memory.ndim != 3 or memory.shape[::2] != x.shape[::2]))
        or 2 * d_keys + d_values != w_in.shape[1]
        or d_keys < n_heads
        or d_keys % n_heads
        or d_values % n_heads
    ):
        raise ValueError(
            f"multi_head_attention: x of shape {x.shape}, memory of shape {None if memory is None else memory.shape}, "
            f"w_in of shape {w_in.shape} and w_out of shape {w_out.shape} do not match for {n_heads} heads: expected "
            "(B, Tq, D), (B, Tk, D), (D, H (2 Dk + Dv)) and (H Dv, D), with Dk at least 1"
        )
    for name, bias, width in (("b_in", b_in, w_in.shape[1]), ("b_out", b_out, w_out.shape[1])):
        if bias is not None and bias.shape != (width,):
            raise ValueError(f"multi_head_attention: expected {name} of shape {(width,)}, found {bias.shape}")
    return d_keys, d_values


def _heads(x: Array, n_heads: int) -> Array:
    """Show the heads as an axis, without a copy: (B, T, H * Dk) -> (B, H, T, Dk)."""
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-2, -3)


def forward(
    x: Array,
    memory: Array | None,
    w_in: Array,
    w_out: Array,
    b_in: Array | None = None,
    b_out: Array | None = None,
    mask: Array | None = None,
    n_heads: int = 8,
    causal: bool = False,
    block_size: int | None = None,
) -> tuple[Array, Any]:
    """Return the output of H attentions side by side.

    Parameters
    ----------
    x : array, shape (B, Tq, D)
        Where the queries come from.
    memory : array, shape (B, Tk, D), or None
        Where keys and values come from; None for self-attention.
    w_in : array, shape (D, H * (2 * Dk + Dv))
        The projections of queries, keys and values, side by side.
    w_out : array, shape (H * Dv, D)
        The output projection.
    b_in, b_out : arrays, shapes (H * (2 * Dk + Dv),) and (D,), optional
        Biases of the projections.
    mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
        True = may attend.
    n_heads : int
        H.
    causal : bool
        Whether a query sees only its own position and those before it, besides what the mask says; needs Tq = Tk.
    block_size : int, optional
        How many queries are worked through at a time; all by default. See ``scaled_dot_product_attention``.

    Returns
    -------
    y : array, shape (B, Tq, D)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, or not of the type of the others, or the mask not boolean.
    ValueError
        If the shapes do not match, or block_size is no whole number of at least 1.
    """
    d_keys, d_values = _sizes(x, memory, w_in, w_out, b_in, b_out, n_heads)
    if memory is None:
        projected = rows(x) @ w_in  # [Q | K | V] in one product
        if b_in is not None:
            projected += b_in
        projected = projected.reshape(*x.shape[:-1], w_in.shape[1])
        q, kv = projected[..., :d_keys], projected[..., d_keys:]
    else:
        q, kv = rows(x) @ w_in[:, :d_keys], rows(memory) @ w_in[:, d_keys:]  # Q and [K | V]
        if b_in is not None:
            q += b_in[:d_keys]
            kv += b_in[d_keys:]
        q, kv = q.reshape(*x.shape[:-1], d_keys), kv.reshape(*memory.shape[:-1], d_keys + d_values)
    q, k, v = (_heads(part, n_heads) for part in (q, kv[..., :d_keys], kv[..., d_keys:]))
    concat = xp.empty((*x.shape[:-1], d_values), dtype=x.dtype)
    _, saved_attention = attention.forward(q, k, v, mask, causal, block_size, out=_heads(concat, n_heads))
    y = rows(concat) @ w_out
    if b_out is not None:
        y += b_out
    saved = (x, memory, w_in, w_out, b_in is not None, b_out is not None, n_heads, concat, saved_attention)
    return y.reshape(*x.shape[:-1], w_out.shape[1]), saved


def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradients of x, memory, w_in, w_out, b_in and b_out."""
    x, memory, w_in, w_out, has_b_in, has_b_out, n_heads, concat, saved_attention = saved
    d_values = w_out.shape[0]
    d_keys = (w_in.shape[1] - d_values) // 2
    d_rows = rows(d_y)
    # y = concat @ w_out + b_out
    d_concat = (d_rows @ w_out.T).reshape(concat.shape)
    d_w_out = rows(concat).T @ d_rows
    d_b_out = d_rows.sum(axis=0) if has_b_out else None
    # concat = attention of q, k and v in each head
    if memory is None:
        d_projected = xp.empty((*x.shape[:-1], w_in.shape[1]), dtype=x.dtype)
        d_q, d_kv = d_projected[..., :d_keys], d_projected[..., d_keys:]
    else:
        d_q = xp.empty((*x.shape[:-1], d_keys), dtype=x.dtype)
        d_kv = xp.empty((*memory.shape[:-1], d_keys + d_values), dtype=x.dtype)
    parts = (d_q, d_kv[..., :d_keys], d_kv[..., d_keys:])
    attention.backward(saved_attention, _heads(d_concat, n_heads), out=tuple(_heads(d, n_heads) for d in parts))
    if memory is None:
        # projected = x @ w_in + b_in
        d_projected = rows(d_projected)
        d_x = (d_projected @ w_in.T).reshape(x.shape)
        d_w_in = rows(x).T @ d_projected
        d_b_in = d_projected.sum(axis=0) if has_b_in else None
        return d_x, None, d_w_in, d_w_out, d_b_in, d_b_out
    # q = x @ w_in[:, :d_keys], kv = memory @ w_in[:, d_keys:], each plus its part of b_in
    d_q, d_kv = rows(d_q), rows(d_kv)
    d_x = (d_q @ w_in[:, :d_keys].T).reshape(x.shape)
    d_memory = (d_kv @ w_in[:, d_keys:].T).reshape(memory.shape)
    d_w_in = xp.empty_like(w_in)
    xp.matmul(rows(x).T, d_q, out=d_w_in[:, :d_keys])
    xp.matmul(rows(memory).T, d_kv, out=d_w_in[:, d_keys:])
    d_b_in = xp.concatenate((d_q.sum(axis=0), d_kv.sum(axis=0))) if has_b_in else None
    return d_x, d_memory, d_w_in, d_w_out, d_b_in, d_b_out


def composed(
    x: Tensor,
    memory: Tensor | None,
    w_in: Tensor,
    w_out: Tensor,
    b_in: Tensor | None = None,
    b_out: Tensor | None = None,
    mask: Array | None = None,
    n_heads: int = 8,
    causal: bool = False,
    block_size: int | None = None,
) -> Tensor:
    """Return the same function in elementary operations, all queries at once."""
    d_keys, d_values = _sizes(x, memory, w_in, w_out, b_in, b_out, n_heads)
    memory = x if memory is None else memory
    first = 0
    projections = []
    for source, width in ((x, d_keys), (memory, d_keys), (memory, d_values)):
        part = source @ w_in[:, first : first + width]
        if b_in is not None:
            part = part + b_in[first : first + width]
        projections.append(part.reshape(*source.shape[:-1], n_heads, width // n_heads).swapaxes(-2, -3))
        first += width
    q, k, v = projections
    heads = composed_attention(q, k, v, mask, causal, block_size)  # (B, H, Tq, Dv)
    y = heads.swapaxes(-2, -3).reshape(*x.shape[:-1], d_values) @ w_out
    return y if b_out is None else y + b_out


multi_head_attention = Operation(forward, backward, composed=composed)
