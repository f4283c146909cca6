"""Draw pairs to train on, and others that are kept apart from them."""

from __future__ import annotations

import numpy as np

from minitransformer.tasks.task import Task

__all__ = ["split"]

Pairs = list[tuple[str, str]]


def split(task: Task, n_train: int, n_held_out: int, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """Draw pairs to train on, and pairs to measure on of which none is trained on.

    Parameters
    ----------
    task : Task
        What to draw from.
    n_train : int
        How many pairs to train on; they may repeat, as they do where there are few short texts.
    n_held_out : int
        How many pairs to hold out; they are all different, and none is shorter than ``task.shortest_held_out``, for the
        shortest texts are the words themselves.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    train, held_out : lists of (source text, target text)

    Raises
    ------
    ValueError
        If more than half of all there are would have to be held out.
    """
    if not 0 <= n_held_out <= task.population // 2:
        raise ValueError(
            f"cannot hold out {n_held_out:,} {task.noun}: there are {task.population:,}, and at most half of them "
            "may be held out"
        )
    held_out: dict[str, str] = {}
    while len(held_out) < n_held_out:
        for source, target in task.draw(n_held_out, rng):
            if len(task.source_tokens(source)) >= task.shortest_held_out and len(held_out) < n_held_out:
                held_out[source] = target
    train: Pairs = []
    while len(train) < n_train:
        train += [pair for pair in task.draw(n_train, rng) if pair[0] not in held_out]
    return train[:n_train], list(held_out.items())
