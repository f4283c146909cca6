"""Training steps on a GPU, ours and PyTorch's, and the rate of its matrix products.

A GPU computes asynchronously. So a turn times one block of steps, not each step: it waits for the device before the
first and after the last, and reads nothing back in between, as in training.

Both sides may round the factors of their matrix products to TF32, and are compared with the rate of one large product
with TF32. Both keep their memory in a pool, which is emptied before the steps.

torch is imported only inside ``prepare_pytorch``, and CuPy is reached by way of ``minitransformer.arrays``.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.apps.measure.machine import peak_memory
from minitransformer.apps.measure.speed.ours import WARM_UP, Program, build, random_batch
from minitransformer.apps.measure.speed.pytorch import stepper
from minitransformer.apps.measure.speed.workloads import LABEL_SMOOTHING, LEARNING_RATE, Workload
from minitransformer.arrays import asarray, device, device_memory, free_device_memory, synchronize, xp
from minitransformer.optim import Adam
from minitransformer.training import training_step

SIDE = 8192
"""Rows and columns of the large product's matrices, 268 MB each."""
LONG_ENOUGH = 0.1
"""How long the large product is repeated, in seconds, each of five times."""


def allow_tf32() -> None:
    """Let CuPy's matrix products use TF32; CuPy reads this setting at the first product."""
    os.environ["CUPY_TF32"] = "1"


@contextmanager
def prepare_ours(workload: Workload) -> Iterator[Program]:
    """Make our program; it does a block of steps and returns the time of one."""
    rate = matmul_rate(xp.matmul, [asarray(matrix) for matrix in _factors()], synchronize)
    free_device_memory()
    model, batch = build(workload), random_batch(workload)
    optimiser = Adam(model.parameters())

    def step() -> Any:
        return training_step(model, optimiser, batch, LEARNING_RATE, LABEL_SMOOTHING)

    _block(step, synchronize, WARM_UP)
    yield (
        lambda times: _block(step, synchronize, times) | {"peak": device_memory()},
        {"workers": 1, "gpu": device(), "matmul": rate},
    )


@contextmanager
def prepare_pytorch(workload: Workload, device: str = "cuda") -> Iterator[Program]:
    """Make PyTorch's eager program, with fused Adam, on the GPU, or on another device to try it out."""
    import torch

    on_gpu = device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} finds no GPU; install one that was built for CUDA")
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        torch.set_float32_matmul_precision("high")  # TF32
    rate = matmul_rate(torch.matmul, [torch.from_numpy(matrix).to(device) for matrix in _factors()], wait)
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step = stepper(workload, device=device)

    def turn(times: int) -> dict[str, Any]:
        answer = _block(step, wait, times)
        if on_gpu:
            return answer | {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
        return answer | {"peak": peak_memory()}

    _block(step, wait, WARM_UP)
    yield turn, {"version": torch.__version__, "device": "the same GPU" if on_gpu else device, "matmul": rate}


def matmul_rate(multiply: Callable[..., Any], factors: Sequence[Any], wait: Callable[[], object]) -> float:
    """Return the best rate of the product of two square matrices with ``SIDE`` rows, in operations a second.

    ``multiply(left, right, out=product)`` is timed on factors on the device; ``wait`` waits until the device is done.
    """
    product = multiply(*factors)

    def mean_time(times: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(times):
            multiply(*factors, out=product)
        wait()
        return (time.perf_counter() - start) / times

    mean_time(1)
    times = max(1, math.ceil(LONG_ENOUGH / max(mean_time(1), 1e-7)))
    return 2 * SIDE**3 / min(mean_time(times) for _ in range(5))


def _factors() -> list[Any]:
    """Return two matrices of random numbers; zeros would be multiplied faster, as they take less power."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2)]


def _block(step: Callable[[], Any], wait: Callable[[], object], times: int) -> dict[str, Any]:
    """Do some steps with one wait for the device before and one after; return the mean time of one."""
    wait()
    start = time.perf_counter()
    for _ in range(times):
        loss = step()
    wait()
    seconds = (time.perf_counter() - start) / times
    if not math.isfinite(last := float(loss)):
        raise ArithmeticError(f"the loss is {last} after {times} steps; the timed steps were not a training")
    return {"seconds": [seconds], "loss": last}


def compare_with_rate(programs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Return how much of the GPU's rate in matrix products each program's step reaches.

    The rate is the best that any of the programs measured with one large product; the other work of a step does not
    count as operations.
    """
    rates = [program["description"]["matmul"] for program in programs.values() if "matmul" in program["description"]]
    ceiling = max(rates, default=None)
    achieved = {name: workload.flops / program["median"] for name, program in programs.items() if "median" in program}
    return {
        "flops": workload.flops,
        "matmul": ceiling,
        "achieved": achieved,
        "share": {name: rate / ceiling for name, rate in achieved.items()} if ceiling else {},
    }
