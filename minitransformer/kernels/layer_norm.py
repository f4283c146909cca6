"""Layer normalisation on a GPU: one kernel forward, two backward."""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, xp
from minitransformer.kernels.source import TYPES, Source, threads_for
from minitransformer.ops.layer_norm import layer_norm

source = Source("layer_norm.cu", "layer_norm_forward", "layer_norm_backward", "layer_norm_parameters")
PARTS = 32
"""The maximum number of parts into which the rows are split for sums."""
WARPS = 8
"""How many rows of a part are read at a time."""


def _fits(x: Array, gain: Array, others: Array) -> bool:
    return x.dtype.name in TYPES and x.dtype == gain.dtype == others.dtype and x.size > 0


def forward(x: Array, gain: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return x normalised over its last axis, times gain, plus bias; see the operation."""
    # The reference raises the error for shapes that do not match.
    if x.ndim == 0 or not gain.shape == bias.shape == x.shape[-1:] or not _fits(x, gain, bias):
        return layer_norm.written.forward(x, gain, bias, eps)
    x, gain, bias = (xp.ascontiguousarray(a) for a in (x, gain, bias))
    n = x.shape[-1]
    y, x_hat, rstd = xp.empty_like(x), xp.empty_like(x), xp.empty((*x.shape[:-1], 1), dtype=x.dtype)
    source.start(
        "layer_norm_forward", x.dtype, x.size // n, threads_for(n), x, gain, bias, float(eps), n, y, x_hat, rstd
    )  # fmt: skip
    return y, (x_hat, rstd, gain)


def backward(saved: Any, d_y: Array) -> Any:
    """Return the gradients of x, gain and bias; see the operation."""
    x_hat, rstd, gain = saved
    if not _fits(x_hat, gain, d_y):
        return layer_norm.written.backward(saved, d_y)
    x_hat, rstd, gain, d_y = (xp.ascontiguousarray(a) for a in (x_hat, rstd, gain, d_y))
    n = x_hat.shape[-1]
    rows = x_hat.size // n
    d_x = xp.empty_like(x_hat)
    source.start("layer_norm_backward", d_y.dtype, rows, threads_for(n), x_hat, rstd, gain, d_y, n, d_x)
    parts = min(PARTS, -(-rows // WARPS))
    d_gain, d_bias = (xp.empty((parts, n), dtype=d_y.dtype) for _ in range(2))
    blocks = parts * -(-n // 32)
    source.start(
        "layer_norm_parameters", d_y.dtype, blocks, 32 * WARPS, x_hat, d_y, rows, n, parts, d_gain, d_bias
    )  # fmt: skip
    return d_x, d_gain.sum(axis=0), d_bias.sum(axis=0)
