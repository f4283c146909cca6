"""Masking: which query may attend to which key.

A mask is boolean, True = may attend, and broadcastable to the scores (..., Tq, Tk). Masked scores become -inf before
the softmax, so their weights are exactly 0:

    y_ij = x_ij where the mask is True, else -inf    (1)

Gradient. Where the mask is True, y_ij is x_ij; where it is False, y_ij is a constant:

    d_x_ij = d_y_ij where the mask is True, else 0   (6)

The Transformer has two masks: ``causal_mask`` hides later positions from each query of the decoder, ``padding_mask``
hides padding from every query. The decoder's self-attention uses both, ``causal_mask(T) & padding_mask(ids)``:

    causal:  j <= i                                  (3)
    padding: token j of the sentence is not padding  (4)

Source: Attention Is All You Need, section 3.2.3 ("masking out (setting to -∞) all values in the input of the softmax
which correspond to illegal connections").
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, as_mask, asarray, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor, where


def causal_mask(n: int) -> Array:
    """Return the mask with which each of n positions sees itself and earlier positions.

    Parameters
    ----------
    n : int
        The number of positions.

    Returns
    -------
    boolean array, shape (n, n)
        ``mask[i, j]`` is True where ``j <= i``.

    Raises
    ------
    ValueError
        If n is not a whole number, or is negative.

    Examples
    --------
    >>> mt.ops.causal_mask(3)
    array([[ True, False, False],
           [ True,  True, False],
           [ True,  True,  True]])
    """
    if not is_whole(n) or n < 0:
        raise ValueError(f"causal_mask: the number of positions must be a whole number of at least 0, found {n!r}")
    positions = xp.arange(n)
    return positions[:, None] >= positions[None, :]  # (3)


def padding_mask(ids: Any, pad: int = 0) -> Array:
    """Return the mask with which every query sees the tokens that are not padding.

    Parameters
    ----------
    ids : integer array, shape (B, Tk)
        Token ids; any number of leading axes.
    pad : int
        The id of padding.

    Returns
    -------
    boolean array, shape (B, 1, 1, Tk)
        True at real tokens. The two axes of length 1 are for the heads and the queries.

    Raises
    ------
    TypeError
        If the ids or pad are not whole numbers.

    Examples
    --------
    >>> mt.ops.padding_mask(np.array([[5, 7, 0]]))
    array([[[[ True,  True, False]]]])
    """
    if not is_whole(pad):
        raise TypeError(f"padding_mask: pad, the id of padding, must be a whole number, found {pad!r}")
    ids = asarray(ids.data if isinstance(ids, Tensor) else ids)
    if ids.dtype.kind not in "iu" and ids.size:
        raise TypeError(f"padding_mask: ids must be whole numbers, found an array of {ids.dtype}")
    return (ids != pad)[..., None, None, :]  # (4)


def forward(x: Array, mask: Array) -> tuple[Array, Any]:
    """Return the scores with -inf wherever the mask is False.

    Parameters
    ----------
    x : array, shape (..., Tq, Tk)
        Scores.
    mask : boolean array, broadcastable to the shape of x
        True = may attend.

    Returns
    -------
    y : array, the shape of x
        The masked scores.
    saved : array
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If the scores are not floating-point numbers, or the mask is not boolean.
    ValueError
        If the mask cannot be broadcast to the scores.

    Examples
    --------
    >>> mt.ops.masking(np.array([1.0, 2.0]), np.array([True, False])).numpy()
    array([  1., -inf])
    """
    check_floats("masking", x=x)
    mask = as_mask(mask, x.shape, "masking").copy()  # the caller may change it before the backward pass
    y = xp.where(mask, x, -xp.inf)  # (1)
    return y, mask


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores."""
    mask = saved
    # (1) y_ij = x_ij where the mask is True, else -inf
    d_x = xp.where(mask, d_y, 0)  # (6)
    return (d_x,)


def reference(x: Tensor, mask: Array) -> Tensor:
    """Return the same function in elementary operations."""
    check_floats("masking", x=x)
    return where(mask, x, -xp.inf)


masking = Operation(forward, backward, reference=reference)
