"""The memory of freed arrays: the C library is asked to keep it for the next ones."""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8  # from malloc.h


def keep_freed_memory() -> None:
    """Ask the C library to keep the memory of freed arrays for the next ones, instead of giving it back.

    A training step makes and frees the same few hundred arrays again and again. Left alone, glibc returns the larger
    ones to the system each time, which then has to clear the memory of the next: a fifth to two fifths of a small step.
    Elsewhere, or where MALLOC_ variables say what is wanted, nothing is changed.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)  # arrays up to 32 MB (glibc's limit) come from the heap, ...
    mallopt(M_TRIM_THRESHOLD, 2**30)  # ... whose top is given back only beyond 1 GB
    mallopt(M_TOP_PAD, 2**26)  # and grows by 64 MB at a time
    mallopt(M_ARENA_MAX, 1)  # one heap for all threads: what one has freed, another may use
