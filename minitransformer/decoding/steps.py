"""What every search for a target sentence shares: the decoder one position at a time, and the choice of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from minitransformer import ops
from minitransformer.arrays import Array, asarray, to_numpy, xp
from minitransformer.autograd import no_grad
from minitransformer.data import PAD, START, pad
from minitransformer.nn import Transformer

__all__ = ["Steps", "as_sources", "best_tokens", "exclude", "in_batches", "limits", "writing"]

Ids = NDArray[np.int64]
T = TypeVar("T")

MORE_THAN_SOURCE = 50
"""How many tokens more than its source a target sentence may have (section 6.1)."""
NEVER = [PAD, START]
"""Tokens that no sentence has inside, so none is written; what probability they have is lost, not shared out."""


@contextmanager
def writing(model: Transformer) -> Iterator[None]:
    """Switch dropout and the recording of gradients off while a model writes; its mode comes back afterwards."""
    training, model.training = model.training, False
    try:
        with no_grad():
            yield
    finally:
        model.training = training


def as_sources(source_ids: Any) -> Ids:
    """Return source sentences as a matrix on the host; their ids are checked by the model.

    Raises
    ------
    ValueError
        If they are not a matrix; no sentences at all may be an empty list.
    """
    ids = to_numpy(source_ids)
    if ids.shape == (0,):
        return np.zeros((0, 0), dtype=np.int64)
    if ids.ndim != 2:
        raise ValueError(f"decoding: source ids must have shape (B, Tk), found {ids.shape}; `pad` makes one of lists")
    return ids


def limits(source_ids: Ids, max_length: int | None = None) -> Ids:
    """Return the most tokens that may be written for each sentence, its end token among them.

    Each sentence has a limit of its own, so that it does not matter which others are in the batch.

    Parameters
    ----------
    source_ids : integer array, shape (B, Tk)
        Source sentences, padded with 0.
    max_length : int, optional
        The limit of all; by default 50 more than the source sentence has tokens.

    Returns
    -------
    integer array, shape (B,)

    Raises
    ------
    ValueError
        If the limit is negative.
    """
    if max_length is None:
        return np.asarray((source_ids != PAD).sum(axis=1) + MORE_THAN_SOURCE)
    if index(max_length) < 0:
        raise ValueError(f"decoding: max_length must be 0 or more, found {max_length}")
    return np.full(len(source_ids), max_length)


class Steps:
    """A model's decoder, one position at a time, for sentences that are written side by side.

    The keys and values of earlier positions are kept, so that each step computes one position.

    Parameters
    ----------
    model : Transformer
        The model.
    source_ids : integer array, shape (B, Tk)
        Source sentences, padded with 0; at first there is one row for each.
    """

    def __init__(self, model: Transformer, source_ids: Ids) -> None:
        self.model = model
        self.memory = model.encode(source_ids)
        self.mask = ops.padding_mask(source_ids, PAD)
        self.cache = model.new_cache()

    def __call__(self, tokens: Ids) -> Array:
        """Append a token to each row and return the scores of the next one: (B,) -> (B, V)."""
        # The memory itself is read in the first step only, which keeps its keys and values.
        return self.model.decode(tokens[:, None], self.memory, self.mask, self.cache).data[:, -1]

    def select(self, rows: Ids, same_sources: bool = False) -> None:
        """Keep these rows, in this order; a row may be kept several times.

        Parameters
        ----------
        rows : integer array, shape (n,)
            The rows to keep.
        same_sources : bool
            Whether each place still belongs to the source sentence that it had. Then nothing that was computed from
            the sources is copied.
        """
        if same_sources and (rows == np.arange(len(rows))).all():
            return
        rows = asarray(rows)
        for layer in self.cache:
            layer.self_attention.select(rows)
            if not same_sources:
                layer.cross_attention.select(rows)
        if not same_sources:
            self.mask = self.mask[rows]


def exclude(scores: Array) -> None:
    """Give the tokens that are never written the score -inf, in place: (..., V)."""
    scores[..., NEVER] = -xp.inf


def best_tokens(scores: Array, n: int) -> Array:
    """Return the n tokens with the highest scores, best first; of equal ones the one with the lower id is better.

    Parameters
    ----------
    scores : array, shape (B, V)
        One row of scores for each choice; overwritten. A token that is excluded has -inf.
    n : int
        How many tokens to choose, at most V.

    Returns
    -------
    integer array, shape (B, n)
    """
    # For the few tokens that a beam needs, so many searches for the highest cost less than a partition, and they say
    # which of two equal ones comes first.
    rows = xp.arange(len(scores))
    tokens = xp.empty((len(scores), n), dtype=xp.int64)
    for i in range(n):
        tokens[:, i] = scores.argmax(axis=-1)
        scores[rows, tokens[:, i]] = -xp.inf
    return tokens


def in_batches(search: Callable[[Ids], list[T]], sources: Sequence[Sequence[int]], size: int = 64) -> list[T]:
    """Decode any number of sentences, those of similar length together.

    Parameters
    ----------
    search : function
        Takes an integer array (B, Tk) of padded source sentences and returns a list of B results, as in
        ``lambda ids: beam_search(model, ids, beam=5)``.
    sources : sequence of sequences of int
        Source sentences, each with its end token.
    size : int
        The most sentences in a batch.

    Returns
    -------
    list
        A result for each sentence, in the order of the sentences.

    Raises
    ------
    ValueError
        If ``size`` is below 1.
    """
    if size < 1:
        raise ValueError(f"in_batches: size must be at least 1, found {size}")
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    results: dict[int, T] = {}
    for first in range(0, len(order), size):
        places = order[first : first + size]
        results.update(zip(places, search(pad([sources[i] for i in places])), strict=True))
    return [results[i] for i in range(len(sources))]
