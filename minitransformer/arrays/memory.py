"""Memory: how much a GPU uses, errors of full memory, and slices of long arrays that fit a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from minitransformer.arrays.namespace import backend, xp


def device_memory() -> int:
    """Return how many bytes of a GPU's memory CuPy's pool holds, in use or kept for later."""
    return int(xp.get_default_memory_pool().total_bytes())


def free_device_memory() -> None:
    """Free the GPU memory that CuPy's pool holds but nothing uses."""
    xp.get_default_memory_pool().free_all_blocks()


def full_memory(error: BaseException) -> str:
    """Return which memory an error reports as full, "computer" or "GPU"; an empty string for other errors."""
    # CuPy's OutOfMemoryError is a MemoryError, like NumPy's; CUDA's own libraries only have a message.
    words = ("cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
    if not isinstance(error, MemoryError) and not any(word in str(error) for word in words):
        return ""
    return "computer" if backend() == "numpy" else "GPU"


CACHE = 16384
"""Entries in a slice that fits a processor's cache; the same on every machine, as sums over slices depend on it."""


def even_parts(length: int, number: int) -> list[slice]:
    """Cut ``range(length)`` into ``number`` contiguous parts at the ends of cache slices; some may be empty."""
    slices = -(-length // CACHE)
    ends = [min(length, CACHE * (slices * i // number)) for i in range(number + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def cache_slices(length: int, size: int = CACHE) -> Iterator[slice]:
    """Cut ``range(length)`` into slices that fit a processor's cache; on a GPU, into one slice.

    Several passes over one slice then read from the cache, not from memory.
    """
    size = size if xp.ndarray is np.ndarray else max(length, 1)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
