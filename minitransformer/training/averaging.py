"""The mean of the last checkpoints' weights (section 6.1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from minitransformer.training.checkpoints import Checkpoint, RunError, read_checkpoint, write_checkpoint
from minitransformer.training.run import RunFolder

__all__ = ["average"]


def average(run: RunFolder, last: int) -> tuple[Path, list[int]]:
    """Write the mean of the last checkpoints' weights into the run folder.

    Parameters
    ----------
    run : RunFolder
        The run; it keeps as many checkpoints as its configuration says.
    last : int
        How many. Initial weights do not count, nor what was saved because of an interruption.

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
    total: dict[str, np.ndarray] = {}
    steps: list[int] = []
    checkpoint = None
    for path in run.last_checkpoints(last):
        checkpoint = read_checkpoint(path)
        shapes = {name: array.shape for name, array in checkpoint.model.items()}
        if total and shapes != {name: array.shape for name, array in total.items()}:
            raise RunError(f"{path} has other weights than the checkpoint before it; they are of different models")
        for name, array in checkpoint.model.items():
            total[name] = total.get(name, 0) + array.astype(np.float64)
        steps.append(checkpoint.state["step"])
    assert checkpoint is not None
    mean = {name: (total[name] / last).astype(array.dtype) for name, array in checkpoint.model.items()}
    write_checkpoint(run.average_path, Checkpoint(mean, {}, {}, {"step": steps[-1], "steps": steps}))
    return run.average_path, steps
