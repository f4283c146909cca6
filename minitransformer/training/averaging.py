"""The mean of the last checkpoints' weights (section 6.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from minitransformer.runs.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError
from minitransformer.runs.folder import RunFolder
from minitransformer.runs.loading import with_start
from minitransformer.runs.provenance import check_weights
from minitransformer.runs.state import AverageState


def average(run: RunFolder, last: int) -> tuple[Path, list[int]]:
    """Write the mean of the last checkpoints' weights into the run folder.

    Parameters
    ----------
    run : RunFolder
        The run; its configuration sets how many checkpoints it keeps.
    last : int
        How many checkpoints. Initial weights and checkpoints that were saved because of an interruption do not count.

    Returns
    -------
    path : Path
        The file.
    steps : list of int
        The steps after which the weights were saved.

    Raises
    ------
    RunError
        If there are fewer checkpoints, one is damaged, or they do not belong together.
    """
    if last < 1:
        raise RunError(f"cannot average the last {last} checkpoints; give --last 1 or more")
    configuration, tokenisers = run.configuration(), run.tokenisers()
    while True:
        paths = run.last_checkpoints(last)
        try:
            mean, state = _mean(paths, configuration)
            break
        except RunError:
            if all(os.path.lexists(path) for path in paths):
                raise  # otherwise a training run has removed one after saving a newer one
    checkpoint = Checkpoint(mean, {}, {}, state.flat(), paths[-1])
    check_weights(run, checkpoint, configuration, tokenisers)
    write_checkpoint(run.average_path, checkpoint)
    return run.average_path, list(state.steps)


def _mean(paths: list[Path], configuration: Configuration) -> tuple[dict[str, np.ndarray], AverageState]:
    """Return the mean of checkpoints' weights, and its state."""
    total: dict[str, np.ndarray] = {}
    weights: Mapping[str, np.ndarray] = {}
    steps: list[int] = []
    checkpoint = None
    for path in paths:
        checkpoint = read_checkpoint(path)
        weights = with_start(configuration, checkpoint.model)
        shapes = {name: array.shape for name, array in weights.items()}
        if total and shapes != {name: array.shape for name, array in total.items()}:
            raise RunError(
                f"{path} has other parameters than the checkpoint before it: they belong to different models"
            )
        for name, array in weights.items():
            total[name] = total.get(name, 0) + array.astype(np.float64)
        steps.append(checkpoint.state["step"])
    assert checkpoint is not None
    mean = {name: (total[name] / len(paths)).astype(array.dtype) for name, array in weights.items()}
    return mean, AverageState(step=steps[-1], steps=steps, provenance=checkpoint.state.get("provenance"))
