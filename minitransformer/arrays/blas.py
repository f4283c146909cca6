"""The matrix products under NumPy: on how many threads they run, and which kernels they use.

NumPy hands matrix products to a BLAS library (in its own packages that is OpenBLAS), which has threads of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_info, threadpool_limits


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def kernels() -> str:
    """Return the names of the BLAS libraries in use and of the processor whose kernels they chose, for reports."""
    found = [
        f"{info['internal_api']} {info.get('version') or ''} ({info.get('architecture', 'unknown')})"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    ]
    return ", ".join(found) or "unknown"


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let each matrix product use so many threads, inside ``with threads(n):``; it holds for the whole process."""
    with threadpool_limits(limits=number, user_api="blas"):
        yield
