"""The softmax on a GPU, mask included: one kernel forward, one backward."""

from __future__ import annotations

from math import prod
from typing import Any

from minitransformer.arrays import Array, as_optional_mask, xp
from minitransformer.kernels.source import TYPES, Source, threads_for
from minitransformer.ops.softmax import check, softmax

source = Source("softmax.cu", "softmax_forward", "softmax_backward")


def _fits(x: Array, axis: int) -> bool:
    return x.dtype.name in TYPES and x.size > 0 and axis in (-1, x.ndim - 1) and x.ndim <= 4


def forward(x: Array, axis: int = -1, mask: Array | None = None, out: Array | None = None) -> tuple[Array, Any]:
    """Return the softmax of x along an axis; see the operation."""
    check(x, axis, out)
    mask = as_optional_mask(mask, x.shape, "softmax")
    if not _fits(x, axis):
        return softmax.written.forward(x, axis, mask, out)
    x = xp.ascontiguousarray(x)
    y = out if out is not None and out.flags.c_contiguous else xp.empty_like(x)
    shape = (*(1,) * (4 - x.ndim), *x.shape)
    steps = (0,) * 4 if mask is None else xp.broadcast_to(mask, shape).strides  # of one byte
    source.start(
        "softmax_forward", x.dtype, prod(shape[:3]), threads_for(shape[3]),
        x, mask, shape[1], shape[2], shape[3], *steps, y,
    )  # fmt: skip
    if out is not None and y is not out:
        out[...] = y
    return y, (y, axis)


def backward(saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores; see the operation."""
    y, axis = saved
    if not _fits(y, axis) or d_y.dtype != y.dtype:
        gradient: tuple[Array] = softmax.written.backward(saved, d_y)
        return gradient
    y, d_y = xp.ascontiguousarray(y), xp.ascontiguousarray(d_y)
    d_x = xp.empty_like(y)
    n = y.shape[-1]
    source.start("softmax_backward", y.dtype, y.size // n, threads_for(n), y, d_y, n, d_x)
    return (d_x,)
