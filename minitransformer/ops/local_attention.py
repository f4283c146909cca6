"""Local attention: each query sees the keys near its own position only.

Scaled dot-product attention of a sentence to itself (see ``scaled_dot_product_attention``), in which query i may attend to key j where

    |i - j| <= r              or, if causal,    i - r <= j <= i

and where the mask over the keys is True, if there is one. With q, k (T, Dk) and v (T, Dv), over the visible j:

    s_ij = q_i · k_j / sqrt(Dk)          w_i = softmax(s_i)          y_i = Σ_j w_ij v_j

In blocks. A matrix of all scores would be T x T, most of it -inf. Cut the positions into T/n blocks of n = max(r, 1),
the last one filled up with zeros. As n >= r, what the queries of block β see lies in the blocks β - 1, β and β + 1
(causal: β - 1 and β), its window of m = 3 (2) blocks:

    s_β = q_β k_window(β)ᵀ / sqrt(Dk)          (n, m n)
    w_β = softmax(s_β)                         (n, m n)
    y_β = w_β v_window(β)                      (n, Dv)

so that time and memory grow as T/n · n · m n, that is as T r, instead of T². In a window's own numbers query a is at
position a and key c at position c - n, in every block alike: one (n, m n) band says which may meet. The zeros that fill
up the last block, and the blocks before the first and after the last, are hidden as masked keys are.

Gradient. Inside a block it is that of ``scaled_dot_product_attention``:

    d_w_β = d_y_β v_window(β)ᵀ                 d_v_window(β) = w_βᵀ d_y_β
    d_s_β from d_w_β, as in ``softmax``        d_q_β         = d_s_β k_window(β) / sqrt(Dk)
                                               d_k_window(β) = d_s_βᵀ q_β / sqrt(Dk)

A block of keys is in m windows, so its gradient is the sum of its parts in all of them: forwards a window reads from
neighbours, backwards it adds to them. Where a key may not be seen w is 0, so d_s is 0 and nothing flows; a query that
sees no key has output 0 and gradients 0. The algebra in full: docs/derivations/local-attention.md.

Source: Attention Is All You Need, section 4 and Table 1 (the row "Self-Attention (restricted)"): "only a neighborhood
of size r in the input sequence centered around the respective output position". Here r counts to each side.
"""

from __future__ import annotations

from math import sqrt
from numbers import Integral
from typing import Any

from minitransformer.arrays import Array, as_mask, check_floats, matmul, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.scaled_dot_product_attention import composed as composed_attention
from minitransformer.ops.softmax import softmax

__all__ = ["backward", "composed", "forward", "local_attention"]


def _checked(q: Any, k: Any, v: Any, mask: Any, r: Any) -> Array:
    """Refuse what does not match; return the key mask, (..., T) or with axes of length 1."""
    check_floats("local_attention", q=q, k=k, v=v)
    if min(q.ndim, v.ndim) < 2 or q.shape != k.shape or q.shape[:-1] != v.shape[:-1] or q.shape[-1] == 0:
        raise ValueError(
            f"local_attention: q of shape {q.shape}, k of shape {k.shape} and v of shape {v.shape} do not match: "
            "expected (..., T, Dk), (..., T, Dk) and (..., T, Dv) with the same leading axes and Dk at least 1"
        )
    if not isinstance(r, Integral) or isinstance(r, bool) or r < 0:
        raise ValueError(f"local_attention: r must be a whole number of at least 0, found {r!r}")
    shape = q.shape[:-1]
    seen: Array = xp.ones(1, dtype=bool) if mask is None else as_mask(mask, shape, "local_attention", of="keys")
    return xp.broadcast_to(seen, (*seen.shape[:-1], q.shape[-2]))


def _band(queries: Array, keys: Array, r: int, causal: bool) -> Array:
    """Return which positions may meet: True where a key is at most r away, and if causal not later."""
    distance = queries[:, None] - keys
    return (distance <= r) & (distance >= (0 if causal else -r))


def _blocks(x: Array, n: int, before: int = 0, after: int = 0) -> Array:
    """Cut positions into blocks and put empty ones around: (..., T, D) -> (..., before + T/n + after, n, D)."""
    *leading, length, d = x.shape
    n_blocks = before - (-length // n) + after
    filled = xp.zeros((*leading, n_blocks * n, d), dtype=x.dtype)
    filled[..., before * n : before * n + length, :] = x
    return filled.reshape(*leading, n_blocks, n, d)


def _windows(x: Array, n: int, m: int) -> Array:
    """Return each block with its neighbours: (..., T, D) -> (..., T/n, m n, D)."""
    blocks = _blocks(x, n, 1, m - 2)
    n_blocks = blocks.shape[-3] - m + 1
    return xp.concatenate([blocks[..., o : o + n_blocks, :, :] for o in range(m)], axis=-2)


def _from_blocks(d_blocks: Array, length: int, before: int = 0) -> Array:
    """Return the gradient of x from that of ``_blocks(x)``."""
    *leading, n_blocks, n, d = d_blocks.shape
    return d_blocks.reshape(*leading, n_blocks * n, d)[..., before * n : before * n + length, :]


def _from_windows(d_windows: Array, n: int, m: int, length: int) -> Array:
    """Return the gradient of x from that of ``_windows(x)``: what was read by several windows adds up."""
    *leading, n_blocks, _, d = d_windows.shape
    d_blocks = xp.zeros((*leading, n_blocks + m - 1, n, d), dtype=d_windows.dtype)
    for o in range(m):
        d_blocks[..., o : o + n_blocks, :, :] += d_windows[..., o * n : (o + 1) * n, :]
    return _from_blocks(d_blocks, length, before=1)


def forward(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, r: int, causal: bool = False
) -> tuple[Array, Any]:
    """Return attention in which each query sees the keys that are at most r positions away.

    Parameters
    ----------
    q, k : arrays, shape (..., T, Dk)
        Queries and keys.
    v : array, shape (..., T, Dv)
        Values.
    mask : boolean array, broadcastable to (..., T), optional
        Which keys may be seen at all, True = may: padding may not.
    r : int
        How far a query sees, to each side.
    causal : bool
        Whether a query sees nothing after its own position.

    Returns
    -------
    y : array, shape (..., T, Dv)
        The outputs.
    saved : tuple
        What ``backward`` needs. Its last entry is the weights (..., T/n, n, m n).

    Raises
    ------
    TypeError
        If q, k or v is not floating-point, they are of two types, or the mask is not boolean.
    ValueError
        If the shapes do not match, or r is no whole number of at least 0.
    """
    mask = _checked(q, k, v, mask, r)
    length = q.shape[-2]
    r = min(int(r), max(length - 1, 0))  # nothing is farther away
    n, m = max(r, 1), 2 if causal else 3
    # (..., T/n, n, Dk) @ (..., T/n, Dk, m n) -> (..., T/n, n, m n)
    scores = matmul(_blocks(q, n), _windows(k, n, m).swapaxes(-1, -2), scale=1 / sqrt(q.shape[-1]))
    seen_keys = _windows(mask[..., None], n, m).swapaxes(-1, -2)  # (..., T/n, 1, m n)
    seen = seen_keys & _band(xp.arange(n), xp.arange(m * n) - n, r, causal)
    weights, _ = softmax.forward(scores, mask=seen, out=scores)
    y = _from_blocks(matmul(weights, _windows(v, n, m)), length)
    return y, (q, k, v, weights)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v."""
    q, k, v, weights = saved
    length, n = q.shape[-2], weights.shape[-2]
    m = weights.shape[-1] // n
    d_rows = _blocks(d_y, n)
    # y = weights @ windows of v
    d_weights = matmul(d_rows, _windows(v, n, m).swapaxes(-1, -2))
    d_v = _from_windows(matmul(weights.swapaxes(-1, -2), d_rows), n, m, length)
    # weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)
    # scores = blocks of q @ (windows of k).T / sqrt(Dk)
    d_scores *= 1 / sqrt(q.shape[-1])
    d_q = _from_blocks(matmul(d_scores, _windows(k, n, m)), length)
    d_k = _from_windows(matmul(d_scores.swapaxes(-1, -2), _blocks(q, n)), n, m, length)
    return d_q, d_k, d_v


def composed(q: Tensor, k: Tensor, v: Tensor, mask: Array | None = None, *, r: int, causal: bool = False) -> Tensor:
    """Return the same function in elementary operations: all scores, T x T, under a mask that is a band."""
    mask = _checked(q, k, v, mask, r)
    positions = xp.arange(q.shape[-2])
    return composed_attention(q, k, v, mask[..., None, :] & _band(positions, positions, int(r), causal))


local_attention = Operation(forward, backward, composed=composed)
