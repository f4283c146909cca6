"""A trained model, read back from its run folder."""

from __future__ import annotations

from typing import NamedTuple

from minitransformer.data import Tokeniser
from minitransformer.nn import Transformer
from minitransformer.tasks import Task
from minitransformer.training.checkpoints import Checkpoint, Report, RunError, read_checkpoint, warn
from minitransformer.training.configuration import Configuration
from minitransformer.training.run import RunFolder

__all__ = ["WEIGHTS", "Trained", "load"]

WEIGHTS = ("average", "mean", "best", "last")
"""Which weights a run may have: the average of its last checkpoints, if somebody asked for it, the mean of its last
steps, those that did best on held-out pairs, those of the last checkpoint. By default the first that there is."""


class Trained(NamedTuple):
    """A model with what is needed to use it."""

    model: Transformer
    task: Task
    source: Tokeniser
    target: Tokeniser
    checkpoint: Checkpoint
    """Where the weights come from."""
    weights: str
    """Which of `WEIGHTS` they are."""
    configuration: Configuration


def load(run: RunFolder, weights: str | None = None, report: Report = warn) -> Trained:
    """Read a trained model from its run folder; it is ready to translate.

    Parameters
    ----------
    run : RunFolder
        The run.
    weights : {"average", "mean", "best", "last"}, optional
        Which; by default the first of these that there is.
    report : callable
        Told of a checkpoint that is damaged, if an earlier one is used instead; by default that is a warning.

    Raises
    ------
    RunError
        If the folder is missing, incomplete or damaged, its parts do not belong together, or it has no such weights.
    """
    configuration = run.configuration()
    source, target = run.tokenisers()
    checkpoint, chosen = _choose(run, weights, report)
    try:
        task = configuration.build_task()
        model = configuration.build_model(len(source), len(target), source is target)
        model.load_state_dict(checkpoint.mean if chosen == "mean" else checkpoint.model)
    except ValueError as error:
        raise RunError(
            f"{run.path}: configuration, vocabulary and checkpoint do not belong together: {error}"
        ) from error
    model.eval()
    return Trained(model, task, source, target, checkpoint, chosen, configuration)


def _choose(run: RunFolder, weights: str | None, report: Report) -> tuple[Checkpoint, str]:
    if weights not in (None, *WEIGHTS):
        raise RunError(f"there are no weights {weights!r}; a run has {', '.join(WEIGHTS)}")
    if weights == "average" or (weights is None and run.average_path.exists()):
        if not run.average_path.exists():
            raise RunError(f"{run.path} has no average; make it with `minitransformer average {run.path} --last N`")
        return read_checkpoint(run.average_path), "average"
    only_best = weights is None and not run.checkpoints.files() and run.best_path.exists()
    if weights in (None, "mean", "last") and not only_best:
        checkpoint = run.checkpoints.load(report)
        if weights == "last":
            return checkpoint, "last"
        if checkpoint.mean:
            return checkpoint, "mean"
        if weights == "mean":
            raise RunError(
                f"{run.path} has no mean of its last steps' weights: that is made at the end of a training with "
                "--average-last; choose other weights"
            )
    if weights == "best" or run.best_path.exists():
        if not run.best_path.exists():
            raise RunError(f"{run.path} has no best weights: nothing has been measured yet")
        return read_checkpoint(run.best_path), "best"
    return checkpoint, "last"
