"""Convolution: each position is computed from the k inputs around it, with the same k matrices everywhere.

For positions t = 1 ... T of each sentence, with inputs x_t (D_in), outputs y_t (D_out) and one matrix W_j (D_in, D_out)
for each place j = 0 ... k - 1 of the kernel:

    Δ_j = (j - c) dilation                           (1)        where W_j reads: to the left if negative
    y_t = b + Σ_j x_{t + Δ_j} W_j                    (3)        with x = 0 outside of the sentence

c is the place that reads position t itself: the middle, c = (k - 1) / 2 with k odd; or, if causal, the last, c = k - 1,
so that y_t does not depend on later inputs. There are as many outputs as inputs. One layer spans 1 + (k - 1) dilation
positions. With dilations 1, k, k², ..., log_k(T) causal layers connect any two of T positions; if not causal, up to one
layer more is needed.

Gradient. W_j is a linear layer from x_{t + Δ_j} to y_t, for each t where both exist. x_i is in y_t for t = i - Δ_j:

    d_x_i = Σ_j d_y_{i - Δ_j} W_jᵀ                   (8)        with d_y = 0 outside: the kernel, flipped
    d_W_j = Σ_t x_{t + Δ_j}ᵀ d_y_t                   (11)       over all positions and all sentences
    d_b   = Σ_t d_y_t                                (12)

With k = 1 this is ``linear``; the feed-forward network is "two convolutions with kernel size 1" and a ReLU between.
The algebra in full: docs/derivations/convolution.md.

Source: Attention Is All You Need, sections 3.3 and 4 and Table 1 (the row "Convolutional"); for causal and dilated
kernels, Neural Machine Translation in Linear Time (Kalchbrenner et al., 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitransformer.arrays import Array, Shapes, is_whole, xp
from minitransformer.autograd import Operation, Tensor, concatenate
from minitransformer.ops.linear import rows

shapes = Shapes("convolution", "x (B, T, D_in), weight (k, D_in, D_out), bias (D_out,), k >= 1")


def check(x: Any, weight: Any, bias: Any, causal: bool, dilation: Any) -> None:
    """Reject arrays whose types or shapes do not match, a kernel without a middle, and a wrong dilation."""
    shapes(x, weight, bias)
    if not causal and weight.shape[0] % 2 == 0:
        raise ValueError(
            f"convolution: a kernel of even size {weight.shape[0]} has no middle: "
            "use an odd size, or causal=True, which looks to the left only"
        )
    if not is_whole(dilation) or dilation < 1:
        raise ValueError(f"convolution: dilation must be a whole number of at least 1, found {dilation!r}")


def _taps(length: int, size: int, causal: bool, dilation: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield each place j of the kernel, the inputs that it reads and the outputs that it writes."""
    centre = size - 1 if causal else (size - 1) // 2
    for j in range(size):
        shift = (j - centre) * dilation  # (1)
        if abs(shift) < length:  # otherwise it reads only outside the sentence
            yield j, slice(max(shift, 0), length + min(shift, 0)), slice(max(-shift, 0), length + min(-shift, 0))


def forward(
    x: Array, weight: Array, bias: Array | None = None, causal: bool = False, dilation: int = 1
) -> tuple[Array, Any]:
    """Return the convolution of x along its positions, with zeros outside.

    Parameters
    ----------
    x : array, shape (B, T, D_in)
        The inputs.
    weight : array, shape (k, D_in, D_out), k >= 1
        A matrix for each place of the kernel; ``weight[0]`` is for the leftmost input. k must be odd unless causal.
    bias : array, shape (D_out,), optional
        Added to each output.
    causal : bool
        Whether an output depends only on its own and earlier inputs.
    dilation : int
        The distance between the inputs that neighbouring places of the kernel read.

    Returns
    -------
    y : array, shape (B, T, D_out)
        The outputs.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If an array is not floating-point, or the types differ.
    ValueError
        If the shapes do not match, the kernel has no middle, or dilation is not an integer of at least 1.

    Examples
    --------
    >>> x = np.array([[[1.0], [2.0], [4.0]]])  # (B, T, D)
    >>> weight = np.array([[[1.0]], [[10.0]]])  # of the position before, of the position itself
    >>> mt.ops.convolution(x, weight, causal=True).numpy().ravel()
    array([10., 21., 42.])
    """
    check(x, weight, bias, causal, dilation)
    y = xp.zeros((*x.shape[:2], weight.shape[2]), dtype=x.dtype)
    if bias is not None:
        y += bias
    for j, read, write in _taps(x.shape[1], weight.shape[0], causal, dilation):
        y[:, write] += x[:, read] @ weight[j]  # (3)
    return y, (x, weight, bias is not None, causal, dilation)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array | None]:
    """Return the gradients of x, weight and bias."""
    x, weight, has_bias, causal, dilation = saved
    d_x, d_weight = xp.zeros(x.shape, dtype=x.dtype), xp.zeros(weight.shape, dtype=weight.dtype)
    # (3) y[:, write] += x[:, read] @ weight[j]
    for j, read, write in _taps(x.shape[1], weight.shape[0], causal, dilation):
        d_x[:, read] += d_y[:, write] @ weight[j].T  # (8)
        d_weight[j] = rows(x[:, read]).T @ rows(d_y[:, write])  # (11)
    # (3) y += bias
    d_bias = d_y.sum(axis=(0, 1)) if has_bias else None  # (12)
    return d_x, d_weight, d_bias


def reference(x: Tensor, weight: Tensor, bias: Tensor | None = None, causal: bool = False, dilation: int = 1) -> Tensor:
    """Return the same function in elementary operations, on x with zeros on both sides."""
    check(x, weight, bias, causal, dilation)
    batch, length, d_in = x.shape
    around = (weight.shape[0] - 1) * dilation
    before = around if causal else around // 2
    zeros = [xp.zeros((batch, n, d_in), dtype=x.dtype) for n in (before, around - before)]
    padded = concatenate([zeros[0], x, zeros[1]], axis=1)
    windows = [padded[:, j * dilation : j * dilation + length] for j in range(weight.shape[0])]
    # k windows (B, T, D_in) side by side, times k matrices (D_in, D_out) one below another
    y = concatenate(windows, axis=2) @ weight.reshape(weight.shape[0] * d_in, weight.shape[2])
    return y if bias is None else y + bias


convolution = Operation(forward, backward, reference=reference)
