"""Lets the C library keep the memory of freed arrays, in programs that train."""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # from malloc.h


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for later arrays, instead of returning it to the system.

    Every training step creates and frees the same few hundred arrays. By default glibc returns the larger ones to the
    system each time, and the system clears the memory of the next ones; that takes 20 to 40 % of a small step.

    It changes the whole process, which then holds memory that it no longer uses. So only the commands of this package
    call it. Call it at the top of a script that trains. With another C library, or if variables ``MALLOC_...`` are
    set, it changes nothing.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it
        return
    mallopt(M_MMAP_MAX, 0)  # all arrays come from the heap, however large, ...
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)  # ... whose top is returned only beyond 2 GB
    mallopt(M_TOP_PAD, 2**26)  # and grows by 64 MB at a time
    mallopt(M_ARENA_MAX, 1)  # one heap for all threads: memory that one thread has freed, another may use
