"""Tasks for sentences of any length, which ask by position or by content.

A sentence begins with the start token, so that a causal model without positions can find out where it is: the weight
of the start token in a mean over all positions falls as 1 / t.

- ``recall``: the target at each position is the symbol L positions back. The symbols say nothing about where to look,
  so the answer is found by position alone. Its distance is the same in sentences of every length.
- ``copy``: a row of symbols, the separator, and the row again; the target is the next symbol of the row. The answer is
  found by its place in the row, or by content: it follows the place where the last symbols were before. Its distance
  is the length of the row, so longer sentences have it farther back.
- ``lookup``: half of the tokens are cards, each with a key and a value; the others are questions, each with a key. The
  target at a question is the value of the earlier card with this key. Cards and questions are in random order, so the
  answer is found by content alone, and longer sentences have answers farther back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

NO_TARGET = -1
"""The target of positions without one; ``cross_entropy`` ignores it."""


class Batch(NamedTuple):
    """Sentences, with what is asked at each position: integer arrays, shape (B, T)."""

    ids: np.ndarray
    targets: np.ndarray
    """``NO_TARGET`` where nothing is asked."""
    answers: np.ndarray
    """The position of the token that holds the answer; ``NO_TARGET`` where nothing is asked."""


class Task(Protocol):
    """What a model is trained on."""

    @property
    def title(self) -> str:
        """What is asked."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""

    @property
    def classes(self) -> int:
        """The number of different targets, all equally frequent."""

    def draw(self, n: int, batch: int, rng: np.random.Generator) -> Batch:
        """Draw sentences of n tokens."""


@dataclass(frozen=True)
class Recall:
    """The symbol L positions back."""

    distance: int = 4
    classes: int = 8
    start: bool = True
    """Whether the start token comes first."""

    @property
    def title(self) -> str:
        """What is asked."""
        return f"recall of the symbol {self.distance} positions back"

    @property
    def vocabulary(self) -> int:
        """The symbols, and the start token."""
        return self.classes + 1

    def draw(self, n: int, batch: int, rng: np.random.Generator) -> Batch:
        """Draw sentences of n tokens."""
        ids = rng.integers(0, self.classes, (batch, n))
        ids[:, : self.start] = self.classes
        back = np.arange(n) - self.distance
        answers = np.tile(np.where(back >= self.start, back, NO_TARGET), (batch, 1))
        return Batch(ids, _values(ids, answers), answers)


@dataclass(frozen=True)
class Copy:
    """The next symbol of a row that is read once more."""

    title: ClassVar[str] = "copy of the first half"
    classes: int = 8

    @property
    def vocabulary(self) -> int:
        """The symbols, the separator and the start token."""
        return self.classes + 2

    def draw(self, n: int, batch: int, rng: np.random.Generator) -> Batch:
        """Draw sentences of n tokens."""
        row = (n - 1) // 2
        ids = rng.integers(0, self.classes, (batch, n))
        ids[:, : n - 2 * row] = self.vocabulary - 1
        ids[:, n - row] = self.vocabulary - 2
        ids[:, n - row + 1 :] = ids[:, n - 2 * row : n - row - 1]
        at = np.arange(n)
        answers = np.tile(np.where(at >= n - row, at - row, NO_TARGET), (batch, 1))
        return Batch(ids, _values(ids, answers), answers)

    def garble(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Draw other symbols after the separator; the targets stay, and only their place tells which they are."""
        ids = batch.ids.copy()
        second = ids[:, (batch.targets == NO_TARGET)[0].sum() + 1 :]
        second[...] = rng.integers(0, self.classes, second.shape)
        return batch._replace(ids=ids)

    def follow_context(self, batch: Batch, k: int) -> np.ndarray:
        """Return the accuracy at each position of a guess by content: the symbol that followed the last k before.

        If they stand at several places of the row, one of these is drawn. The shape is (B, T).
        """
        ids, n = batch.ids, batch.ids.shape[1]
        same = np.isin(np.arange(n), batch.answers) & np.ones((len(ids), n, 1), dtype=bool)
        for back in range(k):
            asked, earlier = _shift(ids, back, -1), _shift(ids, back + 1, -2)
            same &= asked[:, :, None] == earlier[:, None, :]
        right = same & (ids[:, None, :] == batch.targets[:, :, None])
        found: np.ndarray = right.sum(axis=-1) / np.maximum(same.sum(axis=-1), 1)
        return found


@dataclass(frozen=True)
class Lookup:
    """The value of the card with the same key, for sentences with at most so many cards."""

    title: ClassVar[str] = "lookup of the value with the same key"
    keys: int
    classes: int = 4

    @property
    def vocabulary(self) -> int:
        """A card for each key and value, a question for each key, and the start token."""
        return self.keys * self.classes + self.keys + 1

    def draw(self, n: int, batch: int, rng: np.random.Generator) -> Batch:
        """Draw sentences of n tokens; the keys of a sentence differ."""
        cards = (n - 1) // 2
        keys = rng.permuted(np.tile(np.arange(self.keys), (batch, 1)), axis=1)[:, :cards]
        values = rng.integers(0, self.classes, (batch, cards))
        # Two places for each key: the card is at the earlier one. The rest, at the beginning, are start tokens.
        places = rng.permuted(np.tile(np.arange(n - 2 * cards, n), (batch, 1)), axis=1).reshape(batch, cards, 2)
        card, question = places.min(axis=-1), places.max(axis=-1)
        ids, targets, answers = np.full((3, batch, n), NO_TARGET)
        ids[...] = self.vocabulary - 1
        np.put_along_axis(ids, card, keys * self.classes + values, axis=1)
        np.put_along_axis(ids, question, self.keys * self.classes + keys, axis=1)
        np.put_along_axis(targets, question, values, axis=1)
        np.put_along_axis(answers, question, card, axis=1)
        return Batch(ids, targets, answers)


def _shift(ids: np.ndarray, back: int, empty: int) -> np.ndarray:
    """Return, at each position, the token so many positions back."""
    shifted = np.full_like(ids, empty)
    shifted[:, back:] = ids[:, : ids.shape[1] - back]
    return shifted


def _values(ids: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the tokens at the positions of the answers."""
    return np.where(answers == NO_TARGET, NO_TARGET, np.take_along_axis(ids, answers.clip(0), axis=1))


TASKS: Mapping[str, Callable[[int], Task]] = {
    "recall": lambda longest: Recall(),
    "copy": lambda longest: Copy(),
    "lookup": lambda longest: Lookup(keys=longest // 2),
}
"""By name, what makes each task for sentences of at most so many tokens."""
