"""Local attention: each query sees only the keys near its own position.

Scaled dot-product attention of a sentence to itself, in which query i may attend to key j where

    |i - j| <= radius        or, if causal,        i - radius <= j <= i

and where the mask over the keys is True, if one is given. With q, k (T, Dk) and v (T, Dv), over the visible j:

    s_ij = q_i · k_j / sqrt(Dk)                      (1)
    w_i  = softmax(s_i)                              (2)
    y_i  = Σ_j w_ij v_j                              (3)

In blocks. A matrix of all scores would be T x T, most of it -inf. So the positions are cut into blocks of
Tb = max(radius, 1), the last one filled up with zeros. As Tb >= radius, the queries of block β see only keys of the
blocks β - 1, β and β + 1 (causal: β - 1 and β). These are its window of Tw = 3 Tb (causal: 2 Tb) keys:

    s_β = q_β k_βᵀ / sqrt(Dk)                        (6)        (Tb, Tw); k_β and v_β (5) are the whole window
    w_β = softmax(s_β)                               (7)        (Tb, Tw)
    y_β = w_β v_β                                    (8)        (Tb, Dv)
    y   = the y_β one below another                  (9)

Time and memory grow as T / Tb · Tb · Tw, that is as T times the radius, instead of T². Counted from the start of its
block, query a is at position a and key c at position c - Tb, in every block (4). So one (Tb, Tw) band says which pairs
are visible. The zeros around the sentence are hidden like masked keys.

Gradient. In each block it is that of ``scaled_dot_product_attention``:

    d_y_β = the rows of block β in d_y               (18)
    d_w_β = d_y_β v_βᵀ                               (13)
    d_v_β = w_βᵀ d_y_β                               (14)
    d_s_β from d_w_β, see ``softmax``                (15)
    d_q_β = d_s_β k_β / sqrt(Dk)                     (16)
    d_k_β = d_s_βᵀ q_β / sqrt(Dk)                    (17)

A block of keys is in several windows, so its gradient is the sum of its parts in all of them (20): in the forward pass
a window reads from its neighbours, in the backward pass it adds to them. Where a key may not be seen, w and d_s are 0.
A query that sees no key has output 0 and gradients 0. An infinite or NaN value spoils the outputs of all queries whose
window holds it, even where it is hidden, because 0 * inf is NaN.

The algebra in full: docs/derivations/local-attention.md.

Source: Attention Is All You Need, section 4 and Table 1 (the row "Self-Attention (restricted)"): "only a neighborhood
of size r in the input sequence centered around the respective output position". The radius counts to each side.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from minitransformer.arrays import Array, Shapes, as_mask, is_whole, matmul, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.scaled_dot_product_attention import reference as reference_attention
from minitransformer.ops.softmax import softmax

shapes = Shapes("local_attention", "q (..., T, Dk), k (..., T, Dk), v (..., T, Dv), Dk >= 1")


def check(q: Any, k: Any, v: Any, radius: Any) -> None:
    """Reject arrays whose types or shapes do not match, and a wrong radius."""
    shapes(q, k, v)
    if not is_whole(radius) or radius < 0:
        raise ValueError(f"local_attention: radius must be a whole number of at least 0, found {radius!r}")


def _key_mask(mask: Any, shape: tuple[int, ...]) -> Array:
    """Return which keys may be seen at all: (..., T), or with leading axes of length 1."""
    seen: Array = xp.ones(1, dtype=bool) if mask is None else as_mask(mask, shape, "local_attention", of="keys")
    return xp.broadcast_to(seen, (*seen.shape[:-1], shape[-1]))


def _band(queries: Array, keys: Array, radius: int, causal: bool) -> Array:
    """Return which pairs are visible: True where a key is at most the radius away and, if causal, not later."""
    distance = queries[:, None] - keys
    return (distance <= radius) & (distance >= (0 if causal else -radius))


def _blocks(x: Array, size: int, before: int = 0, after: int = 0) -> Array:
    """Return x cut into blocks, with empty ones around: (..., T, D) -> (..., before + T/Tb + after, Tb, D)."""
    *leading, length, d = x.shape
    n_blocks = before - (-length // size) + after
    filled = xp.zeros((*leading, n_blocks * size, d), dtype=x.dtype)
    filled[..., before * size : before * size + length, :] = x
    return filled.reshape(*leading, n_blocks, size, d)


def _windows(x: Array, size: int, width: int) -> Array:
    """Return each block with its neighbours, ``width`` blocks in all: (..., T, D) -> (..., T/Tb, Tw, D)."""
    blocks = _blocks(x, size, 1, width - 2)
    n_blocks = blocks.shape[-3] - width + 1
    return xp.concatenate([blocks[..., o : o + n_blocks, :, :] for o in range(width)], axis=-2)


def _from_blocks(d_blocks: Array, length: int, before: int = 0) -> Array:
    """Return the gradient of x from that of ``_blocks(x)``."""
    *leading, n_blocks, size, d = d_blocks.shape
    return d_blocks.reshape(*leading, n_blocks * size, d)[..., before * size : before * size + length, :]


def _from_windows(d_windows: Array, size: int, width: int, length: int) -> Array:
    """Return the gradient of x from that of ``_windows(x)``: the sum over all windows that read it (20)."""
    *leading, n_blocks, _, d = d_windows.shape
    d_blocks = xp.zeros((*leading, n_blocks + width - 1, size, d), dtype=d_windows.dtype)
    for o in range(width):
        d_blocks[..., o : o + n_blocks, :, :] += d_windows[..., o * size : (o + 1) * size, :]
    return _from_blocks(d_blocks, length, before=1)


def forward(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, radius: int, causal: bool = False
) -> tuple[Array, Any]:
    """Return attention in which each query sees the keys that are at most ``radius`` positions away.

    Parameters
    ----------
    q, k : arrays, shape (..., T, Dk)
        Queries and keys.
    v : array, shape (..., T, Dv)
        Values.
    mask : boolean array, broadcastable to (..., T), optional
        True = the key may be seen; False for padding.
    radius : int
        How far a query sees, to each side.
    causal : bool
        Whether later keys are hidden.

    Returns
    -------
    y : array, shape (..., T, Dv)
        The outputs.
    saved : tuple
        What ``backward`` needs. Its last entry is the weights (..., T/Tb, Tb, Tw).

    Raises
    ------
    TypeError
        If q, k or v is not floating-point, their types differ, or the mask is not boolean.
    ValueError
        If the shapes do not match, or the radius is not an integer of at least 0.

    Examples
    --------
    >>> q = k = np.zeros((1, 4, 2))  # equal scores: the mean of the values in reach
    >>> v = np.array([[[1.0], [2.0], [3.0], [4.0]]])
    >>> mt.ops.local_attention(q, k, v, radius=1).numpy().ravel()
    array([1.5, 2. , 3. , 3.5])
    """
    check(q, k, v, radius)
    mask = _key_mask(mask, q.shape[:-1])
    length = q.shape[-2]
    radius = min(int(radius), max(length - 1, 0))  # nothing is farther away
    size, width = max(radius, 1), 2 if causal else 3
    # (6) s = q kᵀ / sqrt(Dk): (..., T/Tb, Tb, Dk) @ (..., T/Tb, Dk, Tw) -> (..., T/Tb, Tb, Tw)
    scores = matmul(_blocks(q, size), _windows(k, size, width).swapaxes(-1, -2), scale=1 / sqrt(q.shape[-1]))
    seen_keys = _windows(mask[..., None], size, width).swapaxes(-1, -2)  # (..., T/Tb, 1, Tw)
    seen = seen_keys & _band(xp.arange(size), xp.arange(width * size) - size, radius, causal)  # (4)
    weights, _ = softmax.forward(scores, mask=seen, out=scores)  # (7)
    y = _from_blocks(matmul(weights, _windows(v, size, width)), length)  # (8), (9)
    return y, (q, k, v, weights)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v."""
    q, k, v, weights = saved
    length, size = q.shape[-2], weights.shape[-2]
    width = weights.shape[-1] // size
    d_rows = _blocks(d_y, size)  # (18)
    # (8) y = weights @ windows of v
    d_weights = matmul(d_rows, _windows(v, size, width).swapaxes(-1, -2))  # (13)
    d_v = _from_windows(matmul(weights.swapaxes(-1, -2), d_rows), size, width, length)  # (14)
    # (7) weights = softmax(scores)
    (d_scores,) = softmax.backward((weights, -1), d_weights)  # (15)
    # (6) scores = blocks of q @ (windows of k).T / sqrt(Dk)
    d_products = xp.multiply(d_scores, 1 / sqrt(q.shape[-1]), out=d_scores)
    d_q = _from_blocks(matmul(d_products, _windows(k, size, width)), length)  # (16)
    d_k = _from_windows(matmul(d_products.swapaxes(-1, -2), _blocks(q, size)), size, width, length)  # (17)
    return d_q, d_k, d_v


def reference(
    q: Tensor, k: Tensor, v: Tensor, mask: Array | None = None, *, radius: int, causal: bool = False
) -> Tensor:
    """Return the same function in elementary operations: all scores, T x T, under a mask that is a band."""
    check(q, k, v, radius)
    mask = _key_mask(mask, q.shape[:-1])
    positions = xp.arange(q.shape[-2])
    return reference_attention(q, k, v, mask[..., None, :] & _band(positions, positions, int(radius), causal))


local_attention = Operation(forward, backward, reference=reference)
