"""Our training step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from minitransformer import blas
from minitransformer.bench.memory import resident_memory, settle
from minitransformer.bench.workloads import LABEL_SMOOTHING, LEARNING_RATE, Sizes
from minitransformer.data import Batch
from minitransformer.nn import Transformer
from minitransformer.optim import Adam
from minitransformer.training import Workers, default_workers, training_step

__all__ = ["build", "growing", "random_batch", "ready", "timed", "workers_for"]

WARM_UP = 2


def build(sizes: Sizes) -> Transformer:
    """Return a model of these sizes, in training mode."""
    return Transformer(
        sizes.vocabulary,
        sizes.vocabulary,
        d_model=sizes.d_model,
        n_heads=sizes.n_heads,
        n_layers=sizes.n_layers,
        d_ff=sizes.d_ff,
        dropout=sizes.dropout,
        attention_block=sizes.attention_block,
        recompute=sizes.recompute,
    )


def random_batch(sizes: Sizes) -> Batch:
    """Return a batch of random tokens without padding."""
    rng = np.random.default_rng(0)
    source, target_input, target_output = (
        rng.integers(1, sizes.vocabulary, (sizes.batch, sizes.length)) for _ in range(3)
    )
    return Batch(source, target_input, target_output)


def workers_for(sizes: Sizes, workers: int | None) -> int:
    """Return how many workers share a batch: as many as asked for, or as training itself would take here."""
    return default_workers(sizes.batch * sizes.length) if workers is None else workers


def timed(step: Callable[[], object], times: int) -> list[float]:
    """Return how long each of some steps takes, in seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


@contextmanager
def ready(sizes: Sizes, workers: int | None) -> Iterator[tuple[Callable[[int], dict[str, Any]], dict[str, Any]]]:
    """Make our program: a function that does some steps and returns their times, and a description."""
    model, batch = build(sizes), random_batch(sizes)
    optimiser = Adam(model.parameters())
    number = workers_for(sizes, workers)
    with Workers(model, number) as team:

        def step() -> float:
            return float(training_step(model, optimiser, batch, LEARNING_RATE, LABEL_SMOOTHING, team))

        timed(step, WARM_UP)
        yield lambda times: {"seconds": timed(step, times)}, {"workers": number, "kernels": blas.kernels()}


@contextmanager
def growing(sizes: Sizes, workers: int | None) -> Iterator[tuple[Callable[[int], dict[str, Any]], dict[str, Any]]]:
    """Make our program without a warm-up, and describe it by the memory that it holds before its first step.

    A single worker has a single thread for its matrix products too: what grows is to be the work, and nothing else.
    One step of one sentence of one token has gone before: it fills Adam's arrays and loads what is loaded late. Its
    gradients have been let go.
    """
    model, batch = build(sizes), random_batch(sizes)
    optimiser = Adam(model.parameters())
    number = workers_for(sizes, workers)
    with Workers(model, number) as team, blas.threads(1) if number == 1 else nullcontext():

        def step(part: Batch = batch) -> float:
            return float(training_step(model, optimiser, part, LEARNING_RATE, LABEL_SMOOTHING, team))

        step(Batch(*(ids[:1, :1] for ids in batch)))
        for copy in team.models:
            for parameter in copy.parameters():
                parameter.grad = None
        settle()
        yield lambda times: {"seconds": timed(step, times)}, {"resident": resident_memory(), "workers": team.number}
