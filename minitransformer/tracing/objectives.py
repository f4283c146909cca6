"""Numbers that a trace can differentiate: the loss, the log-probability of a token, a difference of two."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np

from minitransformer import ops
from minitransformer.arrays import is_whole
from minitransformer.autograd import Tensor, is_recording
from minitransformer.nn import LanguageModel
from minitransformer.tracing.twin import check_model

PAD = 0


class Objective(Protocol):
    """A number that depends on the logits."""

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the number, shape (): logits (B, Tq, V), targets (B, Tq)."""

    def check(self, n_sentences: int, length: int, n_tokens: int) -> None:
        """Raise an error if the objective does not exist for B sentences of Tq positions and V tokens."""


@dataclass(frozen=True)
class Loss:
    """The mean cross-entropy of the target tokens that are not padding."""

    label_smoothing: float = 0.0

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the loss, in nats per token."""
        return ops.cross_entropy(logits, targets, label_smoothing=self.label_smoothing, ignore_index=PAD)

    def check(self, n_sentences: int, length: int, n_tokens: int) -> None:
        """Raise a ValueError if the label smoothing is not from 0 to 1."""
        if not (isinstance(self.label_smoothing, Real) and 0 <= self.label_smoothing <= 1):
            raise ValueError(f"trace: label_smoothing must be from 0 to 1, found {self.label_smoothing!r}")


@dataclass(frozen=True)
class LogProbability:
    """The log-probability of a token at a target position, in one sentence of the batch."""

    position: int
    token: int
    sentence: int = 0

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the log-probability, in nats."""
        return ops.log_softmax(logits)[self.sentence, self.position, self.token]

    def check(self, n_sentences: int, length: int, n_tokens: int) -> None:
        """Raise an IndexError if there is no such sentence, position or token."""
        _check_index("sentence", self.sentence, n_sentences)
        _check_index("position", self.position, length)
        _check_index("token", self.token, n_tokens)


@dataclass(frozen=True)
class LogProbabilityDifference:
    """How much more probable a token is than another, as the difference of their log-probabilities."""

    position: int
    token: int
    other: int
    sentence: int = 0

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the difference, in nats."""
        row = ops.log_softmax(logits)[self.sentence, self.position]
        return row[self.token] - row[self.other]

    def check(self, n_sentences: int, length: int, n_tokens: int) -> None:
        """Raise an IndexError if there is no such sentence, position or token."""
        LogProbability(self.position, self.token, self.sentence).check(n_sentences, length, n_tokens)
        _check_index("token", self.other, n_tokens)


def _check_index(what: str, index: int, n: int) -> None:
    if not (is_whole(index) and 0 <= index < n):
        raise IndexError(f"trace: there is no {what} {index!r}: expected a whole number from 0 to {n - 1}")


def as_arguments(
    function: str, model: Any, source_ids: Any, target_ids: Any, objective: Objective | None
) -> tuple[Any, Any, Objective]:
    """Return source ids, target ids and the objective of a run, after checking that they fit the model.

    A decoder alone has no source: it is None, and the target is the text.
    """
    check_model(function, model)
    given = [np.asarray(ids) for ids in (source_ids, target_ids) if ids is not None]
    expected = "the ids of one text" if isinstance(model, LanguageModel) else "source ids and target ids"
    if len(given) != (1 if isinstance(model, LanguageModel) else 2):
        raise ValueError(
            f"{function}: expected {expected}, as a {type(model).__name__} reads; found {len(given)} arrays"
        )
    source_ids, target_ids = [None, *given][-2:]
    objective = objective or Loss()
    if target_ids.ndim != 2 or target_ids.shape[1] < 2:
        what = "ids of shape (B, T + 1)" if source_ids is None else "target ids of shape (B, Tq + 1)"
        raise ValueError(f"{function}: expected {what}, with start and end token, found {target_ids.shape}")
    if isinstance(objective, type) or not hasattr(objective, "check"):
        raise TypeError(
            f"{function}: expected an objective, such as Loss() or LogProbability(position, token), found {objective!r}"
        )
    objective.check(len(target_ids), target_ids.shape[1] - 1, getattr(model, "target_vocab", sys.maxsize))
    if not is_recording():
        raise RuntimeError(f"{function}: no gradients under no_grad(); call {function} outside of it")
    return source_ids, target_ids, objective
