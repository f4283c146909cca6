"""A description of the machine for reports; its memory, and the memory of a process."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.arrays import blas

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
SHARED, LOAD = Path("/proc/self/smaps_rollup"), Path("/proc/loadavg")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def processor(description: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name, as far as the system knows it."""
    return _value("model name", description) or platform.processor() or platform.machine() or "unknown processor"


def busy() -> float:
    """Return how many cores other programs keep busy: on average over the last minute, and no more than run now.

    A benchmark that has just ended is in the average, but no longer runs.
    """
    try:
        minute, _, _, running, _ = LOAD.read_text(encoding="ascii").split()
        return max(0.0, min(float(minute), int(running.partition("/")[0]) - 1.0))  # this process runs too
    except (OSError, ValueError):  # not Linux
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def describe() -> dict[str, Any]:
    """Return the software, hardware and time of a measurement."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": blas.cores(),
        "load": busy(),
        "memory": machine_memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": blas.kernels(),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(("OPENBLAS_", "OMP_", "MKL_"))
        },
    }


def peak_memory() -> int | None:
    """Return the peak memory of this process so far, in bytes; None where the system does not report it.

    The interpreter and the libraries are included. On Linux this is VmHWM, not ``ru_maxrss``, which a process inherits
    from its parent.
    """
    peak = _from_status("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_share() -> int | None:
    """Return this process's part of the peak memory of several: a page that n processes share counts 1 / n here.

    What a process holds now is its proportional set size (Pss in proc(5)); what it held at its peak and has returned
    since was its own.
    """
    held, peak, now = _from_status("Pss", SHARED), _from_status("VmHWM"), _from_status("VmRSS")
    return None if held is None or peak is None or now is None else held + max(0, peak - now)


def resident_memory() -> int | None:
    """Return how much memory this process uses now, in bytes, or its peak if only that is known."""
    now = _from_status("VmRSS")
    return peak_memory() if now is None else now


def settle() -> None:
    """Return freed memory to the system and reset the peak to the present use, where the system supports it.

    Otherwise a step could reuse memory that was freed before it, and the peak might be older than the step.
    """
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # a C library without it
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):  # not allowed here
            CLEAR.write_text("5", encoding="ascii")  # resets VmHWM, see proc(5)


def machine_memory() -> int | None:
    """Return how much memory there is, in bytes, or how much this process may have if that is less."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for limit in LIMITS:
        try:
            found.append(int(limit.read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return min(found)


def _from_status(name: str, file: Path | None = None) -> int | None:
    value = _value(name, file or STATUS)
    return None if value is None else int(value.split()[0]) * 1024


def _value(key: str, file: Path) -> str | None:
    """Return what follows the key and a colon in the first such line of a file of the system; None if there is none."""
    try:
        found = re.search(rf"^{key}\s*:(.*)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:  # not Linux
        return None
    return found[1].strip() if found else None
