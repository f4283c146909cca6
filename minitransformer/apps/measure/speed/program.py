"""A process that builds a model and then does training steps on request.

``python -m minitransformer.apps.measure.speed '{"program": "ours", "workload": {...}, "workers": 1}'`` writes
``{"ready": {...}}`` to its standard output once it is warm, or ``{"failed": "why"}``. For each whole number k that it
then reads it does k steps and answers with one line of JSON: their times in seconds, and its peak memory so far in
bytes. It ends with its standard input. Where decoding is measured, a step is the decoding of a batch.

The package is imported before NumPy, so BLAS uses the same kernels as in training. PyTorch's processes import it too,
which costs them about 10 MB.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from minitransformer.apps.measure.machine import peak_memory
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.arrays import backend, use

if TYPE_CHECKING:
    from minitransformer.apps.measure.speed.ours import Program


def command(program: str, workload: Workload, workers: int | None = None, **more: float) -> list[str]:
    """Return the command line of a process that does these steps, with the array library in use here."""
    told = {"program": program, "workload": workload.flat(), "workers": workers, "backend": backend(), **more}
    return [sys.executable, "-m", "minitransformer.apps.measure.speed", json.dumps(told)]


def prepare(told: dict[str, Any]) -> AbstractContextManager[Program]:
    """Return the program that ``command`` described, not started yet; each imports only what it needs."""
    program, workload, workers = told["program"], Workload().changed(**told["workload"]), told["workers"]
    if told["backend"] != "numpy":
        from minitransformer.apps.measure.speed import gpu

        if program == "eager":
            return gpu.prepare_pytorch(workload, told.get("device", "cuda"))
        gpu.allow_tf32()  # CuPy asks once, before its first product
        use(told["backend"])
        return gpu.prepare_ours(workload)
    use("numpy")
    if program == "processes":
        from minitransformer.apps.measure.speed import processes

        network = processes.Network(told["latency"], told["bandwidth"])
        return processes.prepare(workload, told["micro_batches"], network)
    if program == "anatomy":
        from minitransformer.apps.measure.speed import anatomy

        return anatomy.prepare(workload, workers)
    if program in ("ours", "growth"):
        from minitransformer.apps.measure.speed import ours

        return ours.prepare(workload, workers) if program == "ours" else ours.prepare_growth(workload)
    if program in ("eager", "compiled"):
        from minitransformer.apps.measure.speed import pytorch

        return pytorch.prepare(workload, compile_it=program == "compiled")
    from minitransformer.apps.measure.speed import ours_decoding, pytorch_decoding

    side, _, search = program.partition("-")
    if side == "ours":
        return ours_decoding.prepare(workload, search, workers)
    return pytorch_decoding.prepare(workload, search)


def reason(error: Exception) -> str:
    """Return in one line why a program cannot run."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "PyTorch is not installed; python -m pip install torch"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("InvalidCxxCompiler" in line or "No working C++ compiler" in line for line in lines):
        return "torch.compile needs a C++ compiler and finds none; install g++ or clang"
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"[:300]


def main(arguments: list[str]) -> int:
    """Run one benchmark process."""
    told = json.loads(arguments[0])
    # Libraries may print; only answers go to the original standard output.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        with prepare(told) as (turn, description):
            answer(ready=description)
            for line in sys.stdin:
                found = turn(int(line))
                answer(**{"peak": peak_memory(), **found})
    except Exception as error:
        answer(failed=reason(error))
        raise
    return 0
