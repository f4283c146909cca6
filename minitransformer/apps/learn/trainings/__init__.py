"""Small trainings in which a learner's solved functions do the work: one at the end of chapters 3, 5 and 7.

=================  ====================================================================================
``training.py``    what every training has: parameters, a step, and something to show
``colours.py``     chapter 3: a linear model
``digits.py``      chapter 5: a classifier
``reversal.py``    chapter 7: an attention layer
``engine.py``      the engine's own functions, with which the learner's are compared on the first batch
``report.py``      the training with the learner's functions and with the engine's, and the loss curve
=================  ====================================================================================

No backward pass of the engine runs in a training: the gradients are the learner's.
"""

from __future__ import annotations

from collections.abc import Collection

from minitransformer.apps.learn.bank import Exercise, bank
from minitransformer.apps.learn.trainings.colours import Colours
from minitransformer.apps.learn.trainings.digits import Digits
from minitransformer.apps.learn.trainings.engine import Disagreement
from minitransformer.apps.learn.trainings.report import Report, train_with_answers
from minitransformer.apps.learn.trainings.reversal import Reversal
from minitransformer.apps.learn.trainings.training import Training

TRAININGS: dict[int, type[Training]] = {3: Colours, 5: Digits, 7: Reversal}
"""The training of each chapter."""


def chapter_of(exercise: Exercise) -> int:
    """Return the number of an exercise's chapter."""
    return int(exercise.file.partition("-")[0])


def completes_chapter(exercise: Exercise, done: Collection[str]) -> bool:
    """Return whether all exercises of this one's chapter are done that are not optional."""
    return all(other.name in done for other in bank() if other.chapter == exercise.chapter and not other.optional)


def last_ready(done: Collection[str]) -> int | None:
    """Return the last chapter whose training has all functions that it uses, or None."""
    return max((chapter for chapter, kind in TRAININGS.items() if set(kind.uses) <= set(done)), default=None)
