"""How good a model is, on pairs that it has never seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minitransformer.arrays import to_numpy
from minitransformer.autograd import no_grad
from minitransformer.data import END, PAD, START, Vocabulary, pad
from minitransformer.decoding import greedy
from minitransformer.nn import Transformer
from minitransformer.tasks import Task

__all__ = ["Sample", "Scores", "evaluate", "translate"]

CHUNK = 500
"""Sentences that are decoded together."""


class Sample(NamedTuple):
    """A translation beside what it should be."""

    source: str
    wanted: str
    found: str

    @property
    def right(self) -> bool:
        """Whether the translation is what it should be."""
        return self.found == self.wanted


class Scores(NamedTuple):
    """What ``evaluate`` measured."""

    exact_match: float
    """The share of texts that are translated without any fault, 0 to 1."""
    token_accuracy: float
    """The share of target tokens, ends included, that have the highest score when all before them are given."""
    samples: list[Sample]
    """Every translation."""


def translate(
    model: Transformer, task: Task, source: Vocabulary, target: Vocabulary, texts: Sequence[str]
) -> list[str]:
    """Translate texts greedily.

    Raises
    ------
    UnknownTokenError
        If a text has a token that is not in the vocabulary.
    """
    ids = [[*source.encode(task.source_tokens(text)), END] for text in texts]
    found: list[str] = []
    for first in range(0, len(ids), CHUNK):
        sentences = greedy(model, pad(ids[first : first + CHUNK]))
        found += [task.join_target(target.decode(sentence)) for sentence in sentences]
    return found


def evaluate(
    model: Transformer,
    task: Task,
    source: Vocabulary,
    target: Vocabulary,
    pairs: Sequence[tuple[str, str]],
) -> Scores:
    """Translate the sources of pairs and compare with their targets.

    Parameters
    ----------
    model : Transformer
        The model.
    task : Task
        Says how texts are split into tokens and put together.
    source, target : Vocabulary
        The model's vocabularies.
    pairs : sequence of (str, str)
        Source and target texts, at least one.

    Returns
    -------
    Scores
    """
    found = translate(model, task, source, target, [text for text, _ in pairs])
    samples = [Sample(text, wanted, got) for (text, wanted), got in zip(pairs, found, strict=True)]
    right = total = 0
    training, model.training = model.training, False
    try:
        for first in range(0, len(pairs), CHUNK):
            chunk = pairs[first : first + CHUNK]
            sources = pad([[*source.encode(task.source_tokens(text)), END] for text, _ in chunk])
            targets = [target.encode(task.target_tokens(text)) for _, text in chunk]
            wanted = pad([[*ids, END] for ids in targets])
            with no_grad():
                logits = model(sources, pad([[START, *ids] for ids in targets]))
            best = to_numpy(logits.data.argmax(axis=-1))
            right += int(((best == wanted) & (wanted != PAD)).sum())
            total += int((wanted != PAD).sum())
    finally:
        model.training = training
    return Scores(sum(sample.right for sample in samples) / len(samples), right / total, samples)
