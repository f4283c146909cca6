"""Numbers that a trace can differentiate: the loss, the log-probability of a token, a difference of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from minitransformer import ops
from minitransformer.autograd import Tensor

__all__ = ["LogProbability", "LogProbabilityDifference", "Loss", "Objective"]

PAD = 0


class Objective(Protocol):
    """A number that depends on the logits."""

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the number, shape (): logits (B, Tq, V), targets (B, Tq)."""


@dataclass(frozen=True)
class Loss:
    """The mean cross-entropy of the target tokens that are not padding."""

    label_smoothing: float = 0.0

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the loss, in nats per token."""
        return ops.cross_entropy(logits, targets, label_smoothing=self.label_smoothing, ignore_index=PAD)


@dataclass(frozen=True)
class LogProbability:
    """The log-probability of a token at a target position, in one sentence of the batch."""

    position: int
    token: int
    sentence: int = 0

    def __call__(self, logits: Tensor, targets: Any) -> Tensor:
        """Return the log-probability, in nats."""
        return ops.log_softmax(logits)[self.sentence, self.position, self.token]


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
