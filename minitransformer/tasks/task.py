"""What a task is: where its sentence pairs come from, how they are split into tokens, how to train it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


def option(default: Any, text: str) -> Any:
    """Return a dataclass field that is also an option of the command line, with its help text."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model and a training that suit a task, in the paper's words; each field's help text says what it is."""

    d_model: int = option(64, "D, the number of features of each position")
    n_heads: int = option(4, "H, the number of attention heads")
    n_layers: int = option(2, "N, the number of layers in the encoder and in the decoder")
    d_ff: int = option(256, "F, the number of features inside the feed-forward networks")
    dropout: float = option(0.1, "probability of dropping an entry, section 5.4")
    label_smoothing: float = option(0.1, "share of the wanted probability that is spread over all tokens, section 5.4")
    steps: int = option(900, "training steps")
    warmup_steps: int = option(250, "steps during which the learning rate rises, section 5.3")
    learning_rate_factor: float = option(0.6, "what the learning rate of section 5.3 is multiplied by")
    batch_tokens: int = option(2048, "the most tokens of one side in a batch, padding included")
    train_pairs: int = option(20_000, "pairs to train on")
    held_out: int = option(2000, "pairs kept apart, to measure on")
    average_last: int = option(
        300, "the model is the mean of the weights over so many last steps, section 6.1 (1: off)"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Something to be learned: texts of one kind, to be turned into texts of another.

    Parameters
    ----------
    name : str
        What it is asked for by, as in ``build(name, **options)``.
    options : mapping of str to str
        The options that build the same task again.
    title : str
        A short description, as in "numbers in words, English to German".
    noun : str
        What is translated, as in "exact match on 2,000 held-out numbers".
    source_tokens : callable
        Splits a source text, as typed by a person, into tokens. Spaces and case may be evened out where
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
        A source text that makes a telling picture of attention.
    recipe : Recipe
        A model and a training that suit the task.
    """

    name: str
    options: Mapping[str, str]
    title: str
    noun: str
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
    recipe: Recipe
