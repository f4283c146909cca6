"""A trained model, read back from its run folder."""

from __future__ import annotations

from typing import NamedTuple

from minitransformer.data import Vocabulary
from minitransformer.nn import Transformer
from minitransformer.tasks import Task
from minitransformer.training.run import Checkpoint, RunError, RunFolder

__all__ = ["Trained", "load"]


class Trained(NamedTuple):
    """A model with what is needed to use it."""

    model: Transformer
    task: Task
    source: Vocabulary
    target: Vocabulary
    checkpoint: Checkpoint


def load(run: RunFolder) -> Trained:
    """Read a trained model from its run folder; it is ready to translate.

    Raises
    ------
    RunError
        If the folder is missing, incomplete or damaged, or its parts do not belong together.
    """
    configuration = run.configuration()
    source, target = run.vocabularies()
    checkpoint = run.load()
    try:
        task = configuration.build_task()
        model = configuration.build_model(len(source), len(target), task.shared)
        model.load_state_dict(checkpoint.mean or checkpoint.model)
    except ValueError as error:
        raise RunError(
            f"{run.path}: configuration, vocabulary and checkpoint do not belong together: {error}"
        ) from error
    model.eval()
    return Trained(model, task, source, target, checkpoint)
