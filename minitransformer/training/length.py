"""The length of training: epochs or minutes as a number of steps, and the time that steps take."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np

from minitransformer.arrays import backend, blas
from minitransformer.data import ParallelBatches, WindowBatches, all_batches
from minitransformer.gradients import default_processes
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup, forked
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.options import TrainingOptions
from minitransformer.train import training_step

TRAINED = 0.9
"""The share of the minutes for steps; evaluation on held-out pairs and saving take the rest."""
UNTIMED, FEWEST, MOST = 2, 3, 30
"""Trial steps: the number of untimed first ones, and the minimum and maximum number of timed ones."""
SECONDS = 5.0
"""After this time no further trial step begins."""
SIDE, TIMES = 256, 10
"""Side of the square matrices whose product measures the speed of a core, and the number of products."""
EFFICIENCY = 0.4
"""The speed of a training step relative to a large matrix product."""


def fix_length(
    configuration: Configuration,
    batches: ParallelBatches | WindowBatches,
    build_model: Callable[[], Transformer | LanguageModel],
    group: ProcessGroup = SINGLE_PROCESS,
    fork: bool = False,
) -> tuple[Configuration, float | None]:
    """Return the configuration with a number of steps in place of epochs or minutes.

    With minutes, the number depends on the speed of this computer. It is written into the run folder before the first
    step, so a resumed run has the same number.

    Parameters
    ----------
    configuration : Configuration
        Its length is steps, epochs or minutes.
    batches : ParallelBatches or WindowBatches
        The training data.
    build_model : callable
        Builds a model for trial steps, so that the model to be trained stays unchanged.
    group : ProcessGroup
        The processes that train together; the first measures the time.
    fork : bool, default False
        Whether this process will divide itself to train.

    Returns
    -------
    configuration : Configuration
        The same, with a number of steps.
    seconds : float or None
        The time of a step, if it was measured.
    """
    training = configuration.training
    if training.epochs is not None:
        steps = round(training.epochs * batches.batches_per_epoch / training.accumulate)
        return configuration.with_steps(max(1, steps)), None
    if training.minutes is not None:
        model, micro_batches = build_model(), training.micro_batches or 1
        processes = default_processes(micro_batches, training.workers) if fork and group.size == 1 else 1
        with forked(processes, model.trained_parameters(), micro_batches) as several:
            seconds = measure_step(model, batches, training, group if several.size == 1 else several)
        return configuration.with_steps(max(1, int(TRAINED * 60 * training.minutes / seconds))), seconds
    return configuration, None


def measure_step(
    model: Transformer | LanguageModel,
    batches: ParallelBatches | WindowBatches,
    training: TrainingOptions,
    group: ProcessGroup = SINGLE_PROCESS,
) -> float:
    """Return the mean time of a training step in seconds; the model's weights are changed."""
    part, decay = (group.rank, group.size), training.weight_decay
    optimiser = Adam(model.trained_parameters(), weight_decay=decay, part=part, values=group.weights)
    every, times = all_batches(batches), [0.0]
    model.train()
    with blas.threads(training.blas_threads or blas.default_threads(training.micro_batches or 1)):
        for number in range(UNTIMED + MOST):
            begun = time.perf_counter()
            accumulated = list(islice(every, training.accumulate))
            loss = training_step(
                model, optimiser, accumulated, 1e-6, training.label_smoothing,
                clip=training.clip, micro_batches=training.micro_batches or 1, loss_block=training.loss_block,
                group=group,
            )  # fmt: skip
            float(loss)  # synchronise: a GPU works asynchronously
            times = [*times, time.perf_counter() - begun] if number >= UNTIMED else []
            if group.broadcast(partial(_are_enough, times)):
                break
    return group.broadcast(lambda: sum(times) / len(times))


def _are_enough(times: list[float]) -> bool:
    return len(times) >= FEWEST and sum(times) > SECONDS


def guess_seconds(model: Transformer | LanguageModel, tokens: float) -> float | None:
    """Return a guess of how long a training step with ``tokens`` on a side takes on this computer; None on a GPU.

    Each weight is multiplied once in the forward pass and twice in the backward pass for each token of its side.
    """
    if backend() != "numpy":
        return None
    weights = sum(parameter.size for parameter in model.parameters())
    square, times = np.ones((SIDE, SIDE), dtype=np.float32), []
    with blas.threads(1):  # the fastest of several short products on one core is robust on a busy machine
        for _ in range(TIMES):
            begun = time.perf_counter()
            square @ square
            times.append(time.perf_counter() - begun)
    return 2 * 3 * weights * tokens / (2 * SIDE**3) * min(times) / (EFFICIENCY * blas.cores())
