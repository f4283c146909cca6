"""How fast this machine computes given matrix products: an upper bound for the speed of a training step.

Each distinct product of the step, in shapes and memory layouts, is done alone, again and again, with its operands
warm in the caches, and the best time counts. Two ways are tried: as many threads side by side as there are processes,
each with its own share of the batch and of the cores; and one thread with the whole batch, whose products BLAS
spreads over the cores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array

LONG_ENOUGH = 0.01
"""How long a product is repeated, in seconds."""


class Layout(NamedTuple):
    """The memory layout of an array: the length of each axis, and the bytes from one entry to the next along it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, rng: np.random.Generator, dtype: str) -> Array:
        """Return an array of random numbers with this layout."""
        itemsize = np.dtype(dtype).itemsize
        extent = sum((n - 1) * abs(stride) for n, stride in zip(self.shape, self.strides, strict=True) if n)
        memory = rng.random(extent // itemsize + 1, dtype=np.float32).astype(dtype)
        first = memory[
            sum((n - 1) * -s // itemsize for n, s in zip(self.shape, self.strides, strict=True) if s < 0 < n) :
        ]
        return np.lib.stride_tricks.as_strided(first, self.shape, self.strides)


class Product(NamedTuple):
    """A matrix product, by the layouts of its operands and its result; leading axes are batches."""

    left: Layout
    right: Layout
    result: Layout
    dtype: str

    @property
    def flops(self) -> int:
        """How many floating-point operations it is: multiply and add, for each pair of entries that meet."""
        return 2 * prod(self.result.shape) * self.left.shape[-1]


def time_products(products: Mapping[Product, int], threads: int) -> list[float]:
    """Time each product alone.

    Parameters
    ----------
    products : mapping of Product to int
        The products; how often each occurs does not matter here.
    threads : int
        How many threads do it at the same time, each with its own operands.

    Returns
    -------
    list of float
        In seconds: how long each takes until all threads have done it once.
    """
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(threads) as pool:
        return [_time(product, pool, threads, rng) for product in products]


def _time(product: Product, pool: ThreadPoolExecutor, threads: int, rng: np.random.Generator) -> float:
    operands = [tuple(layout.array(rng, product.dtype) for layout in product[:3]) for _ in range(threads)]
    barrier = threading.Barrier(threads)
    start = time.perf_counter()
    _repeat(1, *operands[0])  # also wakes BLAS
    start = time.perf_counter()
    _repeat(1, *operands[0])
    times = min(max(ceil(LONG_ENOUGH / max(time.perf_counter() - start, 1e-7)), 1), 10000)

    def work(mine: tuple[Any, ...]) -> tuple[float, float]:
        barrier.wait()
        begin = time.perf_counter()
        _repeat(times, *mine)
        return begin, time.perf_counter()

    spans = list(pool.map(work, operands)) if threads > 1 else [work(operands[0])]
    return (max(end for _, end in spans) - min(begin for begin, _ in spans)) / times


def _repeat(times: int, left: Array, right: Array, result: Array) -> None:
    for _ in range(times):
        np.matmul(left, right, out=result)
