"""What a task is: where its sentence pairs come from, how they are split into tokens, how to train it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model and a training that suit a task, in the paper's words.

    Parameters
    ----------
    d_model, n_heads, n_layers, d_ff : int
        The size of the model; the encoder and the decoder have `n_layers` each.
    dropout, label_smoothing : float
        Probabilities, from 0 to 1.
    steps, warmup_steps : int
        Training steps in all, and those in which the learning rate grows.
    batch_tokens : int
        The most tokens in a batch, padding included.
    learning_rate_factor : float
        What the learning rate of section 5.3 is multiplied by.
    train_pairs : int
        How many sentence pairs to train on.
    """

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 256
    dropout: float = 0.1
    label_smoothing: float = 0.1
    steps: int = 1500
    warmup_steps: int = 400
    batch_tokens: int = 2048
    learning_rate_factor: float = 1.0
    train_pairs: int = 20_000


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
        ``draw(n, rng)`` gives n distinct pairs of source and target text in random order. Only a pair with
        a word that no other pair has comes first: if the last pairs are held out, all words are learned.
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
    example: str
    recipe: Recipe
