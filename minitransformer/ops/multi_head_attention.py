"""Multi-head attention: H attentions side by side, each on its own projection of the inputs.

Queries come from x (B, Tq, D), keys and values from the memory m (B, Tk, D), which is x itself in self-attention:

    Q = x W_Q + b_Q        K = m W_K + b_K        V = m W_V + b_V        (1)
    q_h, k_h, v_h = the columns of head h in Q, K and V                  (2)        h = 0 ... H - 1
    o_h = Attention(q_h, k_h, v_h)                                       (3)        scaled_dot_product_attention
    C = Concat(o_0, ..., o_(H-1))                                        (4)
    y = C W_O + b_O                                                      (5)

Head h owns columns h·Dk to (h+1)·Dk - 1 of Q and K, and h·Dv to (h+1)·Dv - 1 of V, so one matrix product projects
all heads. W_Q (D, H·Dk), W_K (D, H·Dk) and W_V (D, H·Dv) are side by side in one matrix, w_in = [W_Q | W_K | W_V], and
so are their biases in b_in. Self-attention needs one product for all three projections; attention to a memory needs
one for Q and one for [K | V].

Gradient, from the output back, by the rules of ``linear`` and ``scaled_dot_product_attention``:

    d_C = d_y W_Oᵀ                                                       (9)
    d_W_O = Cᵀ d_y        d_b_O = Σ_r d_y_r                              (10)       over all rows r: (B, Tq)
    d_o_h = the columns of head h in d_C                                 (11)
    d_q_h, d_k_h, d_v_h by the backward pass of attention                (12)
    d_Q, d_K, d_V = the heads side by side                               (13)
    d_W_Q = xᵀ d_Q        d_b_Q = Σ_r d_Q_r        with m for K and V    (14)
    d_x = d_Q W_Qᵀ                                                       (15)
    d_m = d_K W_Kᵀ + d_V W_Vᵀ                                            (16)
    d_x = [d_Q | d_K | d_V] w_inᵀ                                        (17)       in self-attention: the sum of both

Source: Attention Is All You Need, section 3.2.2. The paper's projections have no biases; b_in and b_out are optional.
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import affine, rows
from minitransformer.ops.scaled_dot_product_attention import composed as composed_attention
from minitransformer.ops.scaled_dot_product_attention import scaled_dot_product_attention as attention

__all__ = ["backward", "composed", "forward", "multi_head_attention"]


def check(x: Any, memory: Any, w_in: Any, w_out: Any, b_in: Any, b_out: Any, n_heads: int) -> None:
    """Check the types and shapes of the arrays, and the number of heads."""
    check_floats("multi_head_attention", x=x, memory=memory, w_in=w_in, w_out=w_out, b_in=b_in, b_out=b_out)
    if not is_whole(n_heads):
        raise ValueError(f"multi_head_attention: n_heads must be a whole number, found {n_heads!r}")
    d_keys, d_values = _widths(w_in, w_out) if w_in.ndim == w_out.ndim == 2 else (-1, -1)
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


def _widths(w_in: Any, w_out: Any) -> tuple[int, int]:
    """Return H·Dk and H·Dv."""
    return (w_in.shape[1] - w_out.shape[0]) // 2, w_out.shape[0]


def _products(x: Array, memory: Array | None, d_keys: int) -> list[tuple[Array, slice]]:
    """Return the factors of each product of (1): an input, and columns of w_in."""
    if memory is None:
        return [(x, slice(None))]  # [Q | K | V]
    return [(x, slice(d_keys)), (memory, slice(d_keys, None))]  # Q and [K | V]


def _by_head(projected: list[Array], d_keys: int, d_values: int, n_heads: int) -> tuple[Array, Array, Array]:
    """Return views of q, k and v in [Q | K | V], or in Q and [K | V]: (2)."""
    first, last = projected[0], projected[-1]
    values = last.shape[-1] - d_values
    parts = first[..., :d_keys], last[..., values - d_keys : values], last[..., values:]
    q, k, v = (_heads(part, n_heads) for part in parts)
    return q, k, v


def _heads(x: Array, n_heads: int) -> Array:
    """Return a view with an axis of heads: (B, T, H * Dk) -> (B, H, T, Dk)."""
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
        The source of the queries.
    memory : array, shape (B, Tk, D), or None
        The source of keys and values; None for self-attention.
    w_in : array, shape (D, H * (2 * Dk + Dv))
        The projections of queries, keys and values, side by side.
    w_out : array, shape (H * Dv, D)
        The output projection.
    b_in, b_out : arrays, shapes (H * (2 * Dk + Dv),) and (D,), optional
        Biases of the projections.
    mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
        True = may attend.
    n_heads : int
        The number of heads, H.
    causal : bool
        Whether query i may only see keys j <= i, in addition to the mask; needs Tq = Tk.
    block_size : int, optional
        How many queries to process at a time; all by default. See ``scaled_dot_product_attention``.

    Returns
    -------
    y : array, shape (B, Tq, D)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If one of the arrays is not floating-point, if their types differ, or if the mask is not boolean.
    ValueError
        If the shapes do not match, or block_size is not a whole number of at least 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1, 5, 8))  # (B, Tq, D)
    >>> w_in = rng.normal(size=(8, 24))  # W_Q, W_K and W_V
    >>> w_out = rng.normal(size=(8, 8))
    >>> mt.ops.multi_head_attention(x, None, w_in, w_out, n_heads=2, causal=True).shape
    (1, 5, 8)
    """
    check(x, memory, w_in, w_out, b_in, b_out, n_heads)
    d_keys, d_values = _widths(w_in, w_out)
    products = _products(x, memory, d_keys)
    # (1) Q = x W_Q + b_Q, K = m W_K + b_K, V = m W_V + b_V
    projected = [affine(source, w_in[:, part], None if b_in is None else b_in[part]) for source, part in products]
    q, k, v = _by_head(projected, d_keys, d_values, n_heads)  # (2)
    # (3) o_h = Attention(q_h, k_h, v_h), written into the columns of C (4)
    concat = xp.empty((*x.shape[:-1], d_values), dtype=x.dtype)
    _, saved_attention = attention.forward(q, k, v, mask, causal, block_size, out=_heads(concat, n_heads))
    y = affine(concat, w_out, b_out)  # (5)
    biases = b_in is not None, b_out is not None
    return y, (x, memory, w_in, w_out, *biases, n_heads, concat, saved_attention)


def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradients of x, memory, w_in, w_out, b_in and b_out."""
    x, memory, w_in, w_out, has_b_in, has_b_out, n_heads, concat, saved_attention = saved
    d_keys, d_values = _widths(w_in, w_out)
    products = _products(x, memory, d_keys)
    d_rows = rows(d_y)
    # (5) y = C W_O + b_O
    d_concat = (d_rows @ w_out.T).reshape(concat.shape)  # (9)
    d_w_out = rows(concat).T @ d_rows  # (10)
    d_b_out = d_rows.sum(axis=0) if has_b_out else None  # (10)
    # (2)-(4) o_h = Attention(q_h, k_h, v_h), C = Concat(o_0, ...): (11)-(13)
    d_projected = [xp.empty((*s.shape[:-1], w_in[:, part].shape[1]), dtype=s.dtype) for s, part in products]
    d_q, d_k, d_v = attention.backward(
        saved_attention, _heads(d_concat, n_heads), out=_by_head(d_projected, d_keys, d_values, n_heads)
    )
    # (1) Q = x W_Q + b_Q, K = m W_K + b_K, V = m W_V + b_V
    # Zeros, because a trace reads d_w_in when only part of it is written.
    d_w_in = xp.zeros(w_in.shape, dtype=w_in.dtype)
    d_b_in = xp.zeros(w_in.shape[1:], dtype=w_in.dtype) if has_b_in else None
    d_sources: list[Array | None] = []
    for (source, part), d_part in zip(products, map(rows, d_projected), strict=True):
        xp.matmul(rows(source).T, d_part, out=d_w_in[:, part])  # (14)
        if d_b_in is not None:
            d_part.sum(axis=0, out=d_b_in[part])
        # (15) and (16), or (17)
        d_sources.append((d_part @ w_in[:, part].T).reshape(source.shape))
    d_x, d_memory = d_sources if memory is not None else (*d_sources, None)
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
    check(x, memory, w_in, w_out, b_in, b_out, n_heads)
    d_keys, d_values = _widths(w_in, w_out)
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
