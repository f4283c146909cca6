"""Tasks that draw their own pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.data import Closed, Vocabulary, tokenisers_to_json
from minitransformer.data.text import Pairs
from minitransformer.options import OptionError
from minitransformer.tasks.corpus import Corpus, Tokenisers
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import Task


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnTask(Task):
    """A task that draws its own pairs; the first parameters are those of `Task`.

    Parameters
    ----------
    source_tokens : callable
        Splits a source text, as typed by a person, into tokens. Spaces and case may be normalised where
        that is safe; every other character is in some token, so that an unknown one can be reported.
    target_tokens : callable
        Splits a target text into tokens.
    join_target : callable
        Puts target tokens together again: ``join_target(target_tokens(text)) == text``.
    source_alphabet, target_alphabet : tuple of str
        Every token that can occur, drawn or not; the vocabularies are made of these.
    shared : bool
        Whether source and target have one vocabulary.
    draw : callable
        ``draw(n, rng)`` gives n pairs of source and target text, each drawn afresh, so that they may repeat.
    population : int
        How many different pairs there are.
    shortest_held_out : int
        Texts of fewer source tokens are never held out: there are so few that each has to be learned.
    example : str
        A source text that makes a clear picture of attention.
    in_words : callable
        Writes a source text that was typed in another form, such as digits, as the model reads it; returns others as
        they are.
    """

    source_tokens: Callable[[str], list[str]]
    target_tokens: Callable[[str], list[str]]
    join_target: Callable[[Sequence[str]], str]
    source_alphabet: tuple[str, ...]
    target_alphabet: tuple[str, ...]
    shared: bool
    draw: Callable[[int, np.random.Generator], list[tuple[str, str]]]
    population: int
    shortest_held_out: int = 1
    example: str
    in_words: Callable[[str], str] = str
    unused: tuple[str, ...] = (
        *("source_tokens", "target_tokens", "vocabulary", "min_count", "share_vocabulary", "longest"),
        "bleu_tokenize",
    )

    def normalise_input(self, text: str) -> str:
        """Return the text in words, if it was typed in another form."""
        return self.in_words(text)

    def tokenisers(self) -> Tokenisers:
        """Return the tokenisers of source and target; one object, if they share their tokens."""
        target = Closed(Vocabulary(self.target_alphabet), self.target_tokens, self.join_target)
        if self.shared:
            return target, target
        return Closed(Vocabulary(self.source_alphabet), self.source_tokens, " ".join), target

    def read_tokenisers(self, value: object) -> Tokenisers:
        """Return the task's own tokenisers, if they are those that were described."""
        own = self.tokenisers()
        if value != tokenisers_to_json(*own):
            raise ValueError(f"found other tokens than those of the task {self.name}")
        return own

    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus:
        if data.train_pairs is None:
            raise ValueError(f"task {self.name} can draw any number of pairs: set train_pairs to a number")
        train, held_out = split(self, data.train_pairs, data.held_out, np.random.default_rng(seed))
        source, target = tokenisers or self.tokenisers()
        return Corpus(
            source=source,
            target=target,
            train=train,
            ids=[(source.encode(one), target.encode(other)) for one, other in train],
            valid=held_out[: data.valid_pairs],
            held_out=held_out,
            example=self.example,
        )


def split(task: DrawnTask, n_train: int, n_held_out: int, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """Draw pairs to train on, and held-out pairs.

    Parameters
    ----------
    task : DrawnTask
        What to draw from.
    n_train : int
        How many pairs to train on; they may repeat, because there are few short texts.
    n_held_out : int
        How many pairs to hold out; they are all different, and none is shorter than ``task.shortest_held_out``, because
        the shortest texts are single words.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    train, held_out : lists of (source text, target text)

    Raises
    ------
    ValueError
        If more than half of all pairs would be held out.
    """
    if not 0 <= n_held_out <= task.population // 2:
        raise OptionError(
            f"held_out must be from 0 to {task.population // 2:,}, half of all {task.noun}, found {n_held_out:,}",
            "held_out",
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
