"""The machine in words, for a report."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.arrays import blas
from minitransformer.bench.memory import machine_memory

__all__ = ["describe", "processor"]


def processor(description: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name, as far as the system knows it."""
    try:
        for line in description.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine() or "unknown processor"


def describe() -> dict[str, Any]:
    """Return what a measurement depends on, and when it was made."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": blas.cores(),
        "memory": machine_memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": blas.kernels(),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(("OPENBLAS_", "OMP_", "MKL_"))
        },
    }
