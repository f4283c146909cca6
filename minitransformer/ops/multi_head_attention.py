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
from minitransformer.ops.scaled_dot_product_attention import reference as reference_attention
from minitransformer.ops.scaled_dot_product_attention import scaled_dot_product_attention as attention


def check(x: Any, memory: Any, w_in: Any, w_out: Any, b_in: Any, b_out: Any, n_heads: int) -> Sizes:
    """Check the types and shapes of the arrays, and the number of heads; return the sizes."""
    check_floats("multi_head_attention", x=x, memory=memory, w_in=w_in, w_out=w_out, b_in=b_in, b_out=b_out)
    if not is_whole(n_heads):
        raise ValueError(f"multi_head_attention: n_heads must be a whole number, found {n_heads!r}")
    sizes = sizes_of(x, memory, w_in, w_out, n_heads, n_heads)
    if sizes is None:
        raise ValueError(
            f"multi_head_attention: x of shape {x.shape}, memory of shape {None if memory is None else memory.shape}, "
            f"w_in of shape {w_in.shape} and w_out of shape {w_out.shape} do not match for {n_heads} heads: expected "
            "(B, Tq, D), (B, Tk, D), (D, H (2 Dk + Dv)) and (H Dv, D), with Dk at least 1"
        )
    for name, bias, weight in (("b_in", b_in, w_in), ("b_out", b_out, w_out)):
        if bias is not None and bias.shape != weight.shape[1:]:
            raise ValueError(f"multi_head_attention: expected {name} of shape {weight.shape[1:]}, found {bias.shape}")
    return sizes


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
    cache: Any = None,
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
    cache : nn.KeysAndValues, optional
        The keys and values of earlier positions, for decoding: those of x are appended, and queries attend to all. A
        memory is projected only once. No gradient flows.

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
    sizes = check(x, memory, w_in, w_out, b_in, b_out, n_heads)
    # (1) Q = x W_Q + b_Q, K = m W_K + b_K, V = m W_V + b_V
    queries, keys_values = project(x, memory, w_in, b_in, sizes.queries, cache)
    q, k, v = by_head(queries, keys_values, sizes)  # (2)
    if cache is not None:
        k, v = cache.extend(k, v)
    # (3) o_h = Attention(q_h, k_h, v_h), written into the columns of C (4)
    concat = xp.empty((*x.shape[:-1], w_out.shape[0]), dtype=x.dtype)
    _, saved_attention = attention.forward(q, k, v, mask, causal, block_size, out=heads(concat, n_heads))
    y = affine(concat, w_out, b_out)  # (5)
    return y, (x, memory, w_in, b_in is not None, sizes, (concat, w_out, b_out is not None), saved_attention)


def backward(saved: Any, d_y: Array, needs: tuple[bool, ...] = (True,) * 6) -> tuple[Array | None, ...]:
    """Return the gradients of x, memory, w_in, w_out, b_in and b_out; None for a matrix or input without need."""
    x, memory, w_in, has_b_in, sizes, saved_output, saved_attention = saved
    # (5) y = C W_O + b_O
    d_concat, d_w_out, d_b_out = linear_backward(saved_output, d_y, (True, needs[3]))  # (9), (10)
    # (2)-(4) o_h = Attention(q_h, k_h, v_h), C = Concat(o_0, ...): (11)-(13)
    d_heads = heads(d_concat, sizes.n_heads)
    if memory is None:
        d_projected = xp.empty((*x.shape[:-1], w_in.shape[1]), dtype=x.dtype)  # [d_Q | d_K | d_V]
        n = sizes.queries
        d_q, d_k, d_v = attention.backward(
            saved_attention, d_heads, out=by_head(d_projected[..., :n], d_projected[..., n:], sizes)
        )
        # (1) [Q | K | V] = x w_in + b_in
        d_x, d_w_in, d_b_in = linear_backward((x, w_in, has_b_in), d_projected, needs[::2])  # (14), (17)
        return d_x, None, d_w_in, d_w_out, d_b_in, d_b_out
    d_queries = xp.empty((*x.shape[:-1], sizes.queries), dtype=x.dtype)
    d_keys_values = xp.empty((*memory.shape[:-1], sizes.keys + sizes.values), dtype=x.dtype)
    d_q, d_k, d_v = attention.backward(saved_attention, d_heads, out=by_head(d_queries, d_keys_values, sizes))
    # (1) Q = x W_Q + b_Q, K = m W_K + b_K, V = m W_V + b_V: (14)-(16)
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
    causal: bool = False,
    block_size: int | None = None,
) -> Tensor:
    """Return the same function in elementary operations, all queries at once."""
    sizes = check(x, memory, w_in, w_out, b_in, b_out, n_heads)
    q, k, v = reference_project(x, memory, w_in, b_in, sizes)
    return reference_output(reference_attention(q, k, v, mask, causal, block_size), w_out, b_out)


multi_head_attention = Operation(forward, backward, reference=reference)
