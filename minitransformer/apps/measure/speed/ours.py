"""Our training step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.apps.measure.machine import peak_share, resident_memory, settle
from minitransformer.apps.measure.speed.workloads import LABEL_SMOOTHING, LEARNING_RATE, Workload
from minitransformer.arrays import blas
from minitransformer.data import Batch
from minitransformer.nn import Transformer
from minitransformer.optim import Adam
from minitransformer.parallel import ProcessGroup, can_fork, forked
from minitransformer.training import default_micro_batches, training_step

WARM_UP = 2
"""The number of warm-up steps."""
Program = tuple[Callable[[int], dict[str, Any]], dict[str, Any]]
"""A benchmark program: a function that does a number of steps and returns their times, and a description."""


def build(workload: Workload) -> Transformer:
    """Return the model of a workload, in training mode."""
    return Transformer(workload.vocabulary, workload.vocabulary, workload.model)


def random_batch(workload: Workload) -> Batch:
    """Return a batch of random tokens without padding."""
    rng = np.random.default_rng(0)
    source, target_input, target_output = (
        rng.integers(1, workload.vocabulary, (workload.batch, workload.length)) for _ in range(3)
    )
    return Batch(source, target_input, target_output)


def workers_for(workload: Workload, workers: int | None) -> int:
    """Return how many processes work on a batch: as many as asked for, or as training itself would take here."""
    by_default = default_micro_batches(workload.batch * workload.length) if can_fork() else 1
    return by_default if workers is None else workers


def time_steps(step: Callable[[], object], times: int) -> list[float]:
    """Return how long each of some steps takes, in seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def in_processes(group: ProcessGroup, step: Callable[[], object]) -> Callable[[int], dict[str, Any]]:
    """Return, in the first process and after a warm-up, a function that does a number of steps in all of them.

    It returns their times, and the peak memory of several processes.
    """

    def steps(times: int) -> dict[str, Any]:
        seconds = time_steps(step, group.broadcast(lambda: times))
        parts = [part for part in group.all_gather(peak_share()) if part is not None]
        return {"seconds": seconds} | ({"peak": sum(parts)} if len(parts) == group.size > 1 else {})

    steps(WARM_UP)
    while group.rank:
        steps(0)  # as many as the first process does
    return steps


@contextmanager
def stepping(workload: Workload, number: int) -> Iterator[Callable[[int], dict[str, Any]]]:
    """Return a function that does a number of warm steps in a number of processes, see `in_processes`."""
    model, batch = build(workload), random_batch(workload)
    with forked(number, model.parameters(), number) as group:
        optimiser = Adam(model.parameters(), part=(group.rank, group.size), values=group.weights)

        def step() -> float:
            return float(
                training_step(
                    model, optimiser, batch, LEARNING_RATE, LABEL_SMOOTHING, micro_batches=number, group=group
                )
            )

        yield in_processes(group, step)


@contextmanager
def prepare(workload: Workload, workers: int | None) -> Iterator[Program]:
    """Return our program."""
    number = workers_for(workload, workers)
    with stepping(workload, number) as steps:
        yield steps, {"workers": number, "kernels": blas.kernels()}


@contextmanager
def prepare_growth(workload: Workload) -> Iterator[Program]:
    """Return our program without a warm-up, described by the memory that it uses before its first step.

    It has a single thread for its matrix products, so that only the work grows. One step of one sentence of one token
    comes first: it fills Adam's arrays and loads modules that are loaded late. Its gradients are freed.
    """
    model, batch = build(workload), random_batch(workload)
    optimiser = Adam(model.parameters())
    with blas.threads(1):

        def step(part: Batch = batch) -> float:
            return float(training_step(model, optimiser, part, LEARNING_RATE, LABEL_SMOOTHING))

        step(Batch(*(ids[:1, :1] for ids in batch)))
        optimiser.zero_grad()
        settle()
        description = {"resident": resident_memory()}
        yield lambda times: {"seconds": time_steps(step, times)}, description
