"""Projections by head: what multi-head and grouped-query attention have in common.

One matrix product projects the inputs for all heads: one to [Q | K | V] in self-attention; in attention to a memory one
to Q and one to [K | V]. Equation numbers are those of ``multi_head_attention``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minitransformer.arrays import Array, xp
from minitransformer.autograd import Tensor
from minitransformer.ops.linear import affine
from minitransformer.ops.linear import backward as linear_backward


class Sizes(NamedTuple):
    """How many columns and heads there are: H·Dk of Q, G·Dk of K, G·Dv of V, H and G; here G = H."""

    queries: int
    keys: int
    values: int
    n_heads: int
    n_kv_heads: int


def sizes_of(x: Any, memory: Any, w_in: Any, w_out: Any, n_heads: int, n_kv_heads: int) -> Sizes | None:
    """Return the sizes, or None if the arrays do not match."""
    if n_heads < 1 or x.ndim != 3 or w_in.ndim != 2 or w_out.ndim != 2 or x.shape[-1] != w_in.shape[0]:
        return None
    if memory is not None and (memory.ndim != 3 or memory.shape[::2] != x.shape[::2]):
        return None
    d_v, odd_values = divmod(w_out.shape[0], n_heads)
    d_k, odd_keys = divmod(w_in.shape[1] - n_kv_heads * d_v, n_heads + n_kv_heads)
    if d_k < 1 or odd_values or odd_keys:
        return None
    return Sizes(n_heads * d_k, n_kv_heads * d_k, n_kv_heads * d_v, n_heads, n_kv_heads)


def project(
    x: Array, memory: Array | None, w_in: Array, b_in: Array | None, n_queries: int, cache: Any = None
) -> tuple[Array, Any]:
    """Return Q and [K | V]: (B, Tq, H * Dk) and (B, Tk, H * (Dk + Dv)); None if a cache has those of the memory."""
    if memory is None:
        projected = affine(x, w_in, b_in)
        return projected[..., :n_queries], projected[..., n_queries:]
    b_q, b_kv = (None, None) if b_in is None else (b_in[:n_queries], b_in[n_queries:])
    queries = affine(x, w_in[:, :n_queries], b_q)
    return queries, affine(memory, w_in[:, n_queries:], b_kv) if cache is None or cache.keys is None else None


def project_backward(saved: Any, d_queries: Array, d_keys_values: Array, needs: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return the gradients of x, memory, w_in and b_in, in attention to a memory; the first three where needed."""
    x, memory, w_in, has_b_in = saved
    w_q, w_kv = w_in[:, : d_queries.shape[-1]], w_in[:, d_queries.shape[-1] :]
    d_x, d_w_q, d_b_q = linear_backward((x, w_q, has_b_in), d_queries, needs[::2])  # (15)
    d_memory, d_w_kv, d_b_kv = linear_backward((memory, w_kv, has_b_in), d_keys_values, needs[1:])  # (16)
    d_w_in = xp.concatenate((d_w_q, d_w_kv), axis=1) if needs[2] else None
    d_b_in = xp.concatenate((d_b_q, d_b_kv)) if has_b_in else None
    return d_x, d_memory, d_w_in, d_b_in


def by_head(queries: Array, keys_values: Array | None, sizes: Sizes) -> tuple[Array, Any, Any]:
    """Return views of q, k and v in Q and [K | V]: (2); None for k and v if there is no [K | V]."""
    if keys_values is None:
        return heads(queries, sizes.n_heads), None, None
    keys, values = keys_values[..., : sizes.keys], keys_values[..., sizes.keys :]
    return heads(queries, sizes.n_heads), heads(keys, sizes.n_kv_heads), heads(values, sizes.n_kv_heads)


def heads(x: Array, n_heads: int) -> Array:
    """Return a view with an axis of heads: (B, T, H * Dk) -> (B, H, T, Dk)."""
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-2, -3)


def reference_project(
    x: Tensor, memory: Tensor | None, w_in: Tensor, b_in: Tensor | None, sizes: Sizes
) -> tuple[Tensor, ...]:
    """Return q, k and v by head, in elementary operations."""
    memory, first, parts = x if memory is None else memory, 0, []
    for i, source in enumerate((x, memory, memory)):
        n_heads, width = sizes.n_kv_heads if i else sizes.n_heads, sizes[i]
        part = source @ w_in[:, first : first + width]
        part = part if b_in is None else part + b_in[first : first + width]
        parts.append(part.reshape(*source.shape[:-1], n_heads, width // n_heads).swapaxes(-2, -3))
        first += width
    return tuple(parts)


def reference_output(heads: Tensor, w_out: Tensor, b_out: Tensor | None) -> Tensor:
    """Return the output of heads, in elementary operations: (B, H, Tq, Dv) -> (B, Tq, D)."""
    n, _, length, _ = heads.shape
    y = heads.swapaxes(-2, -3).reshape(n, length, w_out.shape[0]) @ w_out
    return y if b_out is None else y + b_out
