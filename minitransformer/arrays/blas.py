"""The BLAS library under NumPy: the threads and the kernels of its matrix products.

NumPy calls a BLAS library for matrix products (OpenBLAS in NumPy's own packages), which has its own threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

_processes = 1
"""How many processes divide the cores."""


def cores() -> int:
    """Return how many cores this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, found // _processes)


@contextmanager
def divided_cores(processes: int) -> Iterator[None]:
    """Divide the cores among processes inside ``with divided_cores(n):``, which each of them enters."""
    global _processes
    before, _processes = _processes, processes
    try:
        yield
    finally:
        _processes = before


@lru_cache(maxsize=1)
def _libraries() -> Any:
    """Return the BLAS libraries of this process, which NumPy has loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def kernels() -> str:
    """Return the names of the BLAS libraries in use and of the processor whose kernels they chose, for reports."""
    found = [
        f"{info['internal_api']} {info.get('version') or ''} ({info.get('architecture', 'unknown')})"
        for info in _libraries().info()
    ]
    return ", ".join(found) or "unknown"


def kind() -> str:
    """Return the BLAS kernels and the processor features that NumPy uses; rounding depends on both."""
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return f"{kernels()}, NumPy with {' '.join([*extensions.get('baseline', []), *extensions.get('found', [])])}"


def default_threads(processes: int) -> int:
    """Return how many threads each of several processes' matrix products should use, so that all cores are busy.

    For one process this is the library's current setting, for example from ``OPENBLAS_NUM_THREADS``.
    """
    if processes > 1:
        return max(1, cores() // processes)
    return max((info["num_threads"] for info in _libraries().info()), default=1)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Limit each matrix product to a number of threads inside ``with threads(n):``, in the whole process."""
    with _libraries().limit(limits=number):
        yield
