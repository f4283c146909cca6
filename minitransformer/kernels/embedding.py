"""The gradient of an embedding on a GPU: a sort and one kernel, which adds up in the same order every time."""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, xp
from minitransformer.kernels.source import TYPES, Source
from minitransformer.ops.embedding import embedding

source = Source("embedding.cu", "embedding_backward")
WARPS = 4
"""How many rows of an id are read at a time."""


def backward(saved: Any, d_y: Array) -> Any:
    """Return None for the ids, and the gradient of the table; see the operation."""
    ids, (vocabulary, n_features) = saved
    if d_y.dtype.name not in TYPES or d_y.size == 0:
        return embedding.written.backward(saved, d_y)
    n = ids.size
    keys = xp.sort(ids.reshape(-1).astype("int64") * n + xp.arange(n))
    d_table = xp.empty((vocabulary, n_features), dtype=d_y.dtype)
    blocks = vocabulary * -(-n_features // 32)
    d_y = xp.ascontiguousarray(d_y)
    source.start("embedding_backward", d_y.dtype, blocks, 32 * WARPS, keys, d_y, n, n_features, d_table)
    return None, d_table
