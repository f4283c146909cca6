"""What every search for a target sentence shares: the decoder one position at a time, and the choice of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import index
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from minitransformer.arrays import Array, asarray, backend, blas, to_numpy, xp
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


_lock = Lock()
_writing: dict[int, tuple[int, bool]] = {}  # of a model, by its id: how many threads write with it, and its own mode


@contextmanager
def writing(model: Transformer) -> Iterator[None]:
    """Switch dropout and the recording of gradients off while a model writes; its mode comes back afterwards.

    Several threads may write with one model: the mode comes back when the last of them is done.
    """
    with _lock:
        others, mode = _writing.get(id(model), (0, model.training))
        _writing[id(model)] = others + 1, mode
        model.training = False
    try:
        with no_grad():
            yield
    finally:
        with _lock:
            others, mode = _writing.pop(id(model))
            if others > 1:
                _writing[id(model)] = others - 1, mode
            else:
                model.training = mode


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

    Each sentence has W hypotheses, ways in which it may go on. They are W queries of one source, and of one store of
    keys and values: all that any of them has written. Each sees in it what it has written itself, its own past; so
    hypotheses share the past that they have in common, and nothing is copied when one overtakes another.

    What no hypothesis sees any more is dropped from the store when that makes it half as long.

    Parameters
    ----------
    model : Transformer
        The model.
    source_ids : integer array, shape (B, Tk)
        Source sentences, padded with 0; at first each has one hypothesis, in which nothing is written.
    """

    def __init__(self, model: Transformer, source_ids: Ids) -> None:
        self.model = model
        self.memory = model.encode(source_ids)
        self.real = source_ids != PAD  # (B, Tk)
        self.mask = _mask(self.real[:, None])
        self.cache = model.new_cache()
        self.position = 0
        # (B, W, T): which of the T in store each hypothesis sees; None while there is one, which sees all of it.
        self.seen: NDArray[np.bool_] | None = None

    def __call__(self, tokens: Ids, parents: Ids) -> Array:
        """Continue hypotheses and return the scores of their next tokens.

        Parameters
        ----------
        tokens : integer array, shape (B, W)
            What is appended.
        parents : integer array, shape (B, W)
            The hypotheses of the step before to which it is appended, by their places.

        Returns
        -------
        array, shape (B * W, V)
        """
        n, width = tokens.shape
        if width > 1:
            if self.seen is None:
                self.seen = np.ones((n, 1, self.position), dtype=bool)
            itself = np.broadcast_to(np.eye(width, dtype=bool), (n, width, width))
            self.seen = np.concatenate((np.take_along_axis(self.seen, parents[:, :, None], axis=1), itself), axis=2)
        # The memory itself is read in the first step only, which keeps its keys and values.
        logits = self.model.decode(
            tokens, self.memory, self.mask, self.cache, position=self.position, seen=_mask(self.seen)
        ).data
        self.position += 1
        if self.seen is not None:
            self._drop(self.seen)
        return logits.reshape(n * width, -1)

    def select(self, going: Ids) -> Ids:
        """Keep only some sentences and return their places before, in the order that they have now.

        Those at the end come into the places of those that leave; the others stay where they are.

        Parameters
        ----------
        going : boolean array, shape (B,)
            Which sentences are kept.

        Returns
        -------
        integer array, shape (n,)
        """
        n = int(going.sum())
        rows = np.arange(n)
        rows[~going[:n]] = np.flatnonzero(going[n:]) + n
        for layer in self.cache:
            for part in layer:
                part.select(rows)
        self.real = self.real[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.mask = _mask(self.real[:, None])
        return rows

    def _drop(self, seen: NDArray[np.bool_]) -> None:
        """Drop what no hypothesis of a sentence sees, if it is half of what is in store."""
        used = seen.any(axis=1)  # (B, T)
        most = int(used.sum(axis=1).max(initial=0))
        if 2 * most <= used.shape[1]:
            kept = np.argsort(~used, axis=1, kind="stable")[:, :most]  # and some that are not used, where fewer are
            for layer in self.cache:
                layer.self_attention.keep(kept)
            self.seen = np.take_along_axis(seen, kept[:, None, :], axis=2)


def _mask(seen: NDArray[np.bool_] | None) -> Array | None:
    """Return the mask of all heads, on the device, or None if everything is seen: (B, W, T) -> (B, 1, W, T)."""
    return None if seen is None or seen.all() else asarray(seen[:, None])


def exclude(scores: Array) -> None:
    """Give the tokens that are never written the score -inf, in place: (..., V)."""
    scores[..., NEVER] = -xp.inf


def best_tokens(scores: Array, n: int) -> tuple[Array, Array]:
    """Return the n tokens with the highest scores, best first; of equal ones the one with the lower id is better.

    Parameters
    ----------
    scores : array, shape (B, V)
        One row of scores for each choice; overwritten. A token that is excluded has -inf.
    n : int
        How many tokens to choose, at most V.

    Returns
    -------
    tokens : integer array, shape (B, n)
    best : array, shape (B, n)
        Their scores.
    """
    # For the few tokens that a beam needs, so many searches for the highest cost less than a partition, and they say
    # which of two equal ones comes first.
    rows = xp.arange(len(scores))
    tokens = xp.empty((len(scores), n), dtype=xp.int64)
    best = xp.empty((len(scores), n), dtype=scores.dtype)
    for i in range(n):
        tokens[:, i] = scores.argmax(axis=-1)
        best[:, i] = scores[rows, tokens[:, i]]
        scores[rows, tokens[:, i]] = -xp.inf
    return tokens, best


def in_batches(
    search: Callable[[Ids], list[T]], sources: Sequence[Sequence[int]], size: int = 64, workers: int | None = None
) -> list[T]:
    """Decode any number of sentences, those of similar length together, and several batches at the same time.

    Parameters
    ----------
    search : function
        Takes an integer array (B, Tk) of padded source sentences and returns a list of B results, as in
        ``lambda ids: beam_search(model, ids, beam=5)``. With several workers it is called in several threads.
    sources : sequence of sequences of int
        Source sentences, each with its end token.
    size : int
        The most sentences in a batch.
    workers : int, optional
        How many batches are decoded side by side, each by a thread with its share of the cores; by default one for each
        core, and a single one on a GPU, which is busy with one.

    Returns
    -------
    list
        A result for each sentence, in the order of the sentences.

    Raises
    ------
    ValueError
        If ``size`` or ``workers`` is below 1.
    """
    if size < 1:
        raise ValueError(f"in_batches: size must be at least 1, found {size}")
    if workers is not None and workers < 1:
        raise ValueError(f"in_batches: workers must be at least 1, found {workers}")
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    if workers is None:
        workers = blas.cores() if backend() == "numpy" else 1
    workers = min(workers, len(batches))

    def found(places: list[int]) -> list[T]:
        return search(pad([sources[i] for i in places]))

    if workers > 1:
        with blas.threads(max(1, blas.cores() // workers)), ThreadPoolExecutor(workers) as pool:
            # The longest first, so that none is left for the end.
            futures = [pool.submit(found, places) for places in reversed(batches)][::-1]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    else:
        results = [found(places) for places in batches]
    by_place = {
        i: result
        for places, batch in zip(batches, results, strict=True)
        for i, result in zip(places, batch, strict=True)
    }
    return [by_place[i] for i in range(len(sources))]
