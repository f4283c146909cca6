"""A step of Adam on a GPU: one kernel over the whole buffer, which reads each gradient without a copy."""

from __future__ import annotations

from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from minitransformer.arrays import Array, asarray, xp
from minitransformer.kernels.source import TYPES, Source
from minitransformer.optim import Adam, Buffer, Gradient
from minitransformer.optim.adam import update_all

source = Source("adam.cu", "adam_step")
CHUNK = 4096
THREADS = 256
_CHUNKS: WeakKeyDictionary[Buffer, list[Array]] = WeakKeyDictionary()


def _chunks(buffer: Buffer) -> list[Array]:
    """Return, for each chunk, its start, length, parameter, place in that, and whether the weight decay is for it."""
    if buffer not in _CHUNKS:
        decays = [len(p.shape) > 1 for p in buffer.parameters]
        chunks = [
            (begin, min(CHUNK, last - begin), number, begin - first, decays[number])
            for number, (first, last) in enumerate(pairwise(buffer.ends))
            for begin in range(first, last, CHUNK)
        ]
        _CHUNKS[buffer] = [asarray(np.array(column, dtype=np.int64)) for column in zip(*chunks, strict=True)]
    return _CHUNKS[buffer]


def step(optimiser: Adam, learning_rate: float, gradient: Gradient) -> None:
    """Move all parameters; falls back to the array code for several micro-batches or processes, or for other types."""
    buffer, arrays = optimiser.buffer, gradient.by_parameter()
    theta = buffer.values
    fits = arrays is not None and len(buffer.parts) == 1 and theta.dtype.name in TYPES
    if arrays is None or not fits or any(g is not None and g.dtype != theta.dtype for g in arrays):
        update_all(optimiser, learning_rate, gradient)
        return
    (beta1, beta2), t = optimiser.betas, optimiser.step_count
    correction = (1 - beta2**t) ** 0.5
    rate = learning_rate * correction / (1 - beta1**t)
    numbers = beta1, beta2, rate, optimiser.eps * correction, learning_rate * optimiser.weight_decay
    whole = [None if g is None else xp.ascontiguousarray(g) for g in arrays]
    places = asarray(np.array([0 if g is None else g.data.ptr for g in whole], dtype=np.uint64))
    if chunks := _chunks(buffer):
        source.start(
            "adam_step", theta.dtype, len(chunks[0]), THREADS,
            places, *chunks, *map(float, numbers), theta, optimiser.mean, optimiser.mean_square,
        )  # fmt: skip
