"""Dropout on a GPU, with its random numbers and the residual's addition: one kernel forward, one backward."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from minitransformer.arrays import Array, generator_state, xp
from minitransformer.kernels.source import TYPES, Source
from minitransformer.ops.dropout import check, dropout, threshold

source = Source("dropout.cu", "dropout_forward", "dropout_backward")
THREADS = 256
MOST_BLOCKS = 512
"""Enough to fill a GPU; each thread then processes several words, and skips ahead in the random numbers only once."""


def forward(x: Array, p: float, rng: np.random.Generator, residual: Array | None = None) -> tuple[Array, Any]:
    """Return x with entries dropped at random, plus the residual if there is one; see the operation."""
    check(x, p, rng, residual)
    rows, n = (x.shape or (1,))[0], prod(x.shape[1:])
    words = -(-n // 4)
    state = generator_state(rng, rows, words) if _fits(x, residual) else None
    if state is None:
        return dropout.written.forward(x, p, rng, residual)
    x = xp.ascontiguousarray(x)
    residual = None if residual is None else xp.ascontiguousarray(residual)
    y, keep, scale = xp.empty_like(x), xp.empty(x.shape, dtype=bool), 65536 / (65536 - threshold(p))
    blocks = min(MOST_BLOCKS, -(-rows * words // THREADS))
    source.start(
        "dropout_forward", x.dtype, blocks, THREADS, x, residual, *state, rows, n, threshold(p), scale, y, keep
    )  # fmt: skip
    return y, (keep, scale, residual is not None)


def backward(saved: Any, d_y: Array) -> Any:
    """Return the gradients of x and of the residual; see the operation."""
    keep, scale, has_residual = saved
    if not _fits(d_y, None):
        return dropout.written.backward(saved, d_y)
    d_y, keep = xp.ascontiguousarray(d_y), xp.ascontiguousarray(keep)
    d_x = xp.empty_like(d_y)
    d_residual = xp.empty_like(d_y) if has_residual else None
    blocks = min(MOST_BLOCKS, -(-d_y.size // THREADS))
    source.start("dropout_backward", d_y.dtype, blocks, THREADS, d_y, keep, scale, d_y.size, d_x, d_residual)
    return d_x, None, None, d_residual


def _fits(x: Array, residual: Array | None) -> bool:
    return x.dtype.name in TYPES and x.size > 0 and (residual is None or residual.dtype == x.dtype)
