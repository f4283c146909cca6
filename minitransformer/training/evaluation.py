"""Evaluation of a model on held-out pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.arrays import to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.data import (
    END,
    PAD,
    START,
    MissingExtraError,
    Tokeniser,
    comparable,
    normalise_text,
    pad,
    references,
)
from minitransformer.decoding import PAPER, Diverged, SearchOptions, naming_the_longest, source_sentence, translate
from minitransformer.nn import Transformer
from minitransformer.options import OptionError
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup
from minitransformer.training.scores import Quality, Share, bleu, chrf, error_rate, exact_match, token_accuracy

NUMBERS = 2**23
"""The most logits that are computed together: in float32 they take 32 MB."""
WIDTH = 256
"""The minimum of logits that a position counts for: a small vocabulary does not make the layers smaller."""


class Sample(NamedTuple):
    """A translation and its references."""

    source: str
    references: list[str]
    """The references; any of these is right."""
    found: str

    @property
    def right(self) -> bool:
        """Whether the translation equals a reference."""
        return self.found in self.references

    @property
    def wanted(self) -> str:
        """The references as one text."""
        return " or ".join(self.references)


class Scores(NamedTuple):
    """What ``evaluate`` measured."""

    exact_match: float
    """The share of texts that are translated without any error, 0 to 1."""
    token_accuracy: float
    """The share of target tokens, end tokens included, that have the highest score given all previous tokens."""
    loss: float
    """The cross-entropy in nats per target token, without label smoothing."""
    samples: list[Sample]
    """Every translation."""
    phone_error_rate: float | None = None
    """Edits per phone against the closest reference, if requested."""
    bleu: Quality | None = None
    chrf: Quality | None = None
    missing: str | None = None
    """The packages to install for the scores that are missing."""

    def measurements(self) -> dict[str, float]:
        """Return the scores by name, as they are logged."""
        found = {
            "exact_match": self.exact_match,
            "token_accuracy": self.token_accuracy,
            "valid_loss": self.loss,
            "phone_error_rate": self.phone_error_rate,
            "bleu": self.bleu and self.bleu.value,
            "chrf": self.chrf and self.chrf.value,
        }
        return {name: value for name, value in found.items() if value is not None}


def check_bleu(tokenize: str) -> None:
    """Raise an OptionError if sacrebleu has no such tokeniser, and a MissingExtraError if it is not installed."""
    try:
        bleu(["here?"], [["here?"]], tokenize)
    except ValueError as error:
        raise OptionError(f"bleu_tokenize: {error}", "bleu_tokenize") from error


def evaluate(
    model: Transformer,
    source: Tokeniser,
    target: Tokeniser,
    pairs: Sequence[tuple[str, str]],
    measures: Sequence[str] = (),
    beam: int = 1,
    alpha: float = 0.6,
    bleu_tokenize: str = "13a",
    group: ProcessGroup = SINGLE_PROCESS,
    rules: SearchOptions = PAPER,
) -> Scores:
    """Translate the sources of pairs and compare with their targets.

    Parameters
    ----------
    model : Transformer
        The model.
    source, target : Tokeniser
        Convert texts to ids and back.
    pairs : sequence of (str, str)
        Source and target texts, at least one pair. A source that occurs several times is translated once, and each of
        its targets is right. Differences that `comparable` removes are ignored.
    measures : sequence of str
        Scores to compute besides exact match, token accuracy and loss: "phone_error_rate", "bleu", "chrf".
    beam, alpha
        As for `beam_search`.
    bleu_tokenize : str
        As for `bleu`.
    group : ProcessGroup
        The processes that share the work; all get the same scores, which do not depend on the number of processes.
    rules : SearchOptions
        As for `beam_search`.

    Returns
    -------
    Scores

    Raises
    ------
    UnknownTokenError
        If a text has a token that is not in a closed vocabulary.
    ValueError
        If there are no pairs, a text is longer than the model's learned positions, or sacrebleu has no such tokeniser.
    Diverged
        If the model's scores are not numbers.
    """
    if not pairs:
        raise ValueError("evaluate: found no pairs, expected at least one")
    if "bleu" in measures:
        with suppress(MissingExtraError):
            check_bleu(bleu_tokenize)
    pairs = [(normalise_text(text), normalise_text(wanted)) for text, wanted in pairs]
    first = {comparable(text): text for text, _ in reversed(pairs)}
    grouped = references((first[comparable(text)], comparable(wanted)) for text, wanted in pairs)
    found = translate(model, source, target, list(grouped), beam, alpha, group.spread, rules)
    found = [comparable(text) for text in found]
    wanted = list(grouped.values())
    accuracy, loss = _teacher_forced(model, source, target, pairs, group)
    scores = Scores(
        exact_match(found, wanted).value,
        accuracy.value,
        loss,
        [Sample(text, several, got) for (text, several), got in zip(grouped.items(), found, strict=True)],
    )
    if "phone_error_rate" in measures:
        scores = scores._replace(phone_error_rate=error_rate(found, wanted).value)
    try:
        if "bleu" in measures:
            scores = scores._replace(bleu=bleu(found, wanted, bleu_tokenize))
        if "chrf" in measures:
            scores = scores._replace(chrf=chrf(found, wanted))
    except MissingExtraError as error:
        scores = scores._replace(missing=f"{error}")
    return scores


def _teacher_forced(
    model: Transformer, source: Tokeniser, target: Tokeniser, pairs: Sequence[tuple[str, str]], group: ProcessGroup
) -> tuple[Share, float]:
    """Return how many tokens are right given all previous target tokens, and the loss per token."""
    encoded = [(source_sentence(model, source, one), target.encode(other)) for one, other in pairs]
    chunks = list(_chunks(sorted(encoded, key=lambda pair: (max(map(len, pair)), pair)), len(target)))

    def predict(chunk: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Any]:
        source_ids, wanted = pad([ids for ids, _ in chunk]), pad([[*ids, END] for _, ids in chunk])
        memory = model.encode(source_ids)  # without dropout
        target_ids = pad([[START, *ids] for _, ids in chunk])
        return model.decode(target_ids, memory, ops.padding_mask(source_ids, PAD)), wanted

    with naming_the_longest([max(pair, key=len) for pair in pairs], [max(pair, key=len) for pair in encoded]):
        accuracy, total = accuracy_and_loss(predict, chunks, group)
    return accuracy, total / accuracy.total


def accuracy_and_loss(
    predict: Callable[[Any], tuple[Tensor, Any]], chunks: Sequence[Any], group: ProcessGroup
) -> tuple[Share, float]:
    """Return how many tokens have the highest score, and the sum of the losses.

    Parameters
    ----------
    predict : callable
        Returns for one of the chunks the logits and the wanted tokens, of which padding does not count.
    chunks : sequence
        What is predicted at a time.
    group : ProcessGroup
        The processes that share the work.

    Raises
    ------
    Diverged
        If the loss is not a number.
    """

    def measure(chunk: Any) -> tuple[Share, float]:
        with no_grad():
            logits, wanted = predict(chunk)
            loss = ops.cross_entropy(logits, wanted, ignore_index=PAD)
        share = token_accuracy(to_numpy(logits.data.argmax(axis=-1)), np.asarray(wanted))
        return share, float(loss.data) * share.total

    accuracy, total = Share(0, 0), 0.0
    for share, loss in group.spread(lambda some: [measure(chunk) for chunk in some], chunks):
        accuracy, total = accuracy + share, total + loss
    if not isfinite(total):
        raise Diverged(f"the loss is {total}: the training of this model has diverged")
    return accuracy, total


def _chunks(
    pairs: Sequence[tuple[list[int], list[int]]], vocabulary: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Cut pairs, the longest last, into batches whose logits take little memory."""
    chunk: list[tuple[list[int], list[int]]] = []
    for pair in pairs:
        if chunk and (len(chunk) + 1) * (max(map(len, pair)) + 1) * max(vocabulary, WIDTH) > NUMBERS:
            yield chunk
            chunk = []
        chunk.append(pair)
    yield chunk
