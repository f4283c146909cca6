"""A process that makes a model and then does training steps when it is told to.

``python -m minitransformer.bench '{"program": "ours", "sizes": {...}, "workers": null, "backend": "numpy"}'`` says on
its standard output ``{"ready": {...}}`` once it is warm, or ``{"failed": "why"}``. For each whole number k that it then
reads it does k steps and answers with one line of JSON: their times in seconds, and its peak memory so far in bytes.
It ends with its standard input. Where decoding is measured, a step is the decoding of a batch.

The package is imported before NumPy, so BLAS uses the same kernels as in training. PyTorch's processes import it too,
which costs them about 10 MB.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from minitransformer.arrays import backend, use
from minitransformer.bench.memory import peak_memory
from minitransformer.bench.workloads import Sizes

__all__ = ["command", "main"]

Program = AbstractContextManager[tuple[Callable[[int], dict[str, Any]], dict[str, Any]]]


def command(program: str, sizes: Sizes, workers: int | None = None) -> list[str]:
    """Return the command line of a process that does these steps, with the array library in use here."""
    told = {"program": program, "sizes": vars(sizes), "workers": workers, "backend": backend()}
    return [sys.executable, "-m", "minitransformer.bench", json.dumps(told)]


def start(program: str, sizes: Sizes, workers: int | None, library: str = "numpy", device: str = "cuda") -> Program:
    """Return a program, not yet begun; each imports no more than it needs."""
    if library != "numpy":
        from minitransformer.bench import gpu

        if program == "eager":
            return gpu.eager(sizes, device)
        gpu.allow_tf32()  # CuPy asks once, before its first product
        use(library)
        return {"ours": gpu.ours}[program](sizes)
    use(library)
    if program in ("ours", "growth"):
        from minitransformer.bench import ours

        return ours.ready(sizes, workers) if program == "ours" else ours.growing(sizes, workers)
    if program == "anatomy":
        from minitransformer.bench import anatomy

        return anatomy.ready(sizes, workers)
    side, _, search = program.partition("-")
    if search:
        from minitransformer.bench import ours_decoding, pytorch_decoding

        return (ours_decoding if side == "ours" else pytorch_decoding).ready(sizes, search)
    from minitransformer.bench import pytorch

    return {"eager": pytorch.eager, "compiled": pytorch.compiled}[program](sizes)


def reason(error: Exception) -> str:
    """Say in one line why a program cannot run."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "PyTorch is not installed; python -m pip install torch"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("InvalidCxxCompiler" in line or "No working C++ compiler" in line for line in lines):
        return "torch.compile needs a C++ compiler and finds none; install g++ or clang"
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"[:300]


def main(arguments: list[str]) -> int:
    """Be such a process."""
    told = json.loads(arguments[0])
    # Libraries may print; only answers go where the answers are awaited.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        sizes, library = Sizes(**told["sizes"]), told["backend"]
        with start(told["program"], sizes, told["workers"], library, told.get("device", "cuda")) as (turn, description):
            answer(ready=description)
            for line in sys.stdin:
                found = turn(int(line))
                answer(**{"peak": peak_memory(), **found})
    except Exception as error:
        answer(failed=reason(error))
        raise
    return 0
