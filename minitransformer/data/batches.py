"""Batches: sentences of similar length, padded, with a maximum number of tokens; or windows of one long text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minitransformer.data.vocabulary import END, PAD, START

Ids = NDArray[np.int64]


def pad(sequences: Sequence[Sequence[int]]) -> Ids:
    """Return one padded array of sequences of different lengths.

    Parameters
    ----------
    sequences : sequence of sequences of int
        B lists of ids.

    Returns
    -------
    ndarray of int64, shape (B, T)
        The ids, followed by `PAD` up to the longest length T, which may be 0.
    """
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    padded = np.full((len(sequences), lengths.max(initial=0)), PAD, dtype=np.int64)
    inside = np.arange(padded.shape[1]) < lengths[:, None]  # (B, T)
    # index() refuses floats, which fromiter would silently truncate
    padded[inside] = np.fromiter(map(index, chain.from_iterable(sequences)), dtype=np.int64)
    return padded


def decoder_input(target_output: Ids) -> Ids:
    """Return the decoder's input for a target: START, then the target without its last token.

    Parameters
    ----------
    target_output : integer array, shape (B, T)
        Target sentences, each with its end token, padded.

    Returns
    -------
    integer array, shape (B, T)
    """
    shifted = np.concatenate((np.full((len(target_output), 1), START), target_output[:, :-1]), axis=1)
    return np.where(shifted == END, PAD, shifted)


def token_batches(lengths: Sequence[int] | NDArray[np.integer], tokens: int, rng: np.random.Generator) -> list[Ids]:
    """Group the sentences of one epoch into batches of similar length.

    The sentences are sorted by length, those of one length in random order, and cut into batches that
    are as large as the limit allows; then the batches are shuffled.

    Parameters
    ----------
    lengths : sequence of int, shape (n,)
        The length of each sentence in tokens.
    tokens : int
        The maximum number of tokens in a batch, padding included: the number of sentences times the longest length.
    rng : numpy.random.Generator
        The generator of the random order.

    Returns
    -------
    list of ndarrays of int64
        For each batch the indices of its sentences in `lengths`. Each index occurs exactly once.

    Raises
    ------
    ValueError
        If a sentence alone is longer than `tokens`.
    """
    known = np.fromiter(map(index, lengths), dtype=np.int64, count=len(lengths))
    if (known < 0).any():
        raise ValueError(f"token_batches: found the length {known.min()}, expected lengths of 0 or more")
    too_long = np.flatnonzero(known > tokens)
    if too_long.size:
        raise ValueError(
            f"token_batches: sentence {too_long[0]} has {known[too_long[0]]} tokens, but a batch may hold "
            f"{tokens} at most (too long: {too_long.size} of {known.size} sentences); "
            "allow more tokens per batch or leave these sentences out"
        )
    order = rng.permutation(known.size)
    order = order[np.argsort(known[order], kind="stable")]
    batches = np.split(order.astype(np.int64, copy=False), _cuts(known[order].tolist(), tokens))
    return [batches[i] for i in rng.permutation(len(batches)) if batches[i].size]


def _cuts(ascending: list[int], tokens: int) -> list[int]:
    """Return the start of every batch but the first; the last sentence of a batch is its longest."""
    cuts = []
    first = 0
    for place, length in enumerate(ascending):
        if (place + 1 - first) * length > tokens:
            cuts.append(place)
            first = place
    return cuts


def _rng_of_epoch(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, number]))


class Batch(NamedTuple):
    """Sentence pairs as a model takes them; int64, padded with `PAD`.

    Parameters
    ----------
    source : ndarray, shape (B, Tk)
        Source sentences, each with `END`.
    target_input : ndarray, shape (B, Tq)
        `START` and the target sentence: the decoder's input.
    target_output : ndarray, shape (B, Tq)
        The target sentence and `END`: the tokens to predict.
    """

    source: Ids
    target_input: Ids
    target_output: Ids

    @property
    def inputs(self) -> tuple[Ids, ...]:
        """What the model is called with."""
        return self.source, self.target_input


class TextBatch(NamedTuple):
    """Pieces of a text as a decoder alone takes them; int64.

    Parameters
    ----------
    target_input : ndarray, shape (B, T)
        `START` and the text without its last token.
    target_output : ndarray, shape (B, T)
        The text: the tokens to predict.
    """

    target_input: Ids
    target_output: Ids

    @property
    def inputs(self) -> tuple[Ids, ...]:
        """What the model is called with."""
        return (self.target_input,)


class ParallelBatches:
    """The batches of sentence pairs, epoch by epoch; it has no state, so any epoch can be requested.

    Parameters
    ----------
    pairs : sequence of (list of int, list of int)
        Ids of source and target sentences, without `PAD`, `START` and `END`.
    tokens : int
        The maximum number of tokens in a batch, counted as for `token_batches`. The length of a pair is the length of
        its longer side, with `END`.
    seed : int
        Determines, with the number of the epoch, the batches and their order.
    source_end : bool
        Whether `END` follows a source sentence too.

    Raises
    ------
    ValueError
        If there are no pairs, if an id is one of the specials or negative, if a pair is longer than
        `tokens`, or if `seed` is negative.
    """

    def __init__(
        self, pairs: Sequence[tuple[list[int], list[int]]], tokens: int, seed: int, source_end: bool = True
    ) -> None:
        if not pairs:
            raise ValueError("ParallelBatches: found no sentence pairs, expected at least one")
        if seed < 0:
            raise ValueError(f"ParallelBatches: found the seed {seed}, expected 0 or more")
        for side, name in enumerate(("source", "target")):
            lowest = min(chain.from_iterable(pair[side] for pair in pairs), default=END + 1)
            if lowest <= END:
                raise ValueError(
                    f"ParallelBatches: found the id {lowest} in a {name} sentence, expected ids above {END}; "
                    "PAD, START and END are added here, so leave them out"
                )
        self._seed = seed
        self._tokens = tokens
        # everything is padded once, so that a batch is only a slice
        end = [END] if source_end else []
        self._source = pad([[*source, *end] for source, _ in pairs])
        self._target_output = pad([[*target, END] for _, target in pairs])
        self._source_lengths = np.array([len(source) + len(end) for source, _ in pairs])
        self._target_lengths = np.array([len(target) + 1 for _, target in pairs])
        self._lengths = np.maximum(self._source_lengths, self._target_lengths)
        self.batches_per_epoch = len(self._places(0))
        """The number of batches of an epoch: the same for all, because only sentences of equal length are permuted."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch; they depend only on the seed and the number.

        Parameters
        ----------
        number : int
            The number of the epoch, from 0.
        start : int, default 0
            How many batches to skip, for a run that resumes in the middle of an epoch.

        Returns
        -------
        iterator of Batch
            The batches from index `start` on.

        Raises
        ------
        ValueError
            If `number` is negative or `start` is not between 0 and `batches_per_epoch`.
        """
        if number < 0:
            raise ValueError(f"ParallelBatches.epoch: found number={number}, expected 0 or more")
        if not 0 <= start <= self.batches_per_epoch:
            raise ValueError(
                f"ParallelBatches.epoch: found start={start}, expected 0 to {self.batches_per_epoch}, "
                "the batches of an epoch"
            )
        return map(self._cut, self._places(number)[start:])

    def _places(self, number: int) -> list[Ids]:
        rng = _rng_of_epoch(self._seed, number)
        return token_batches(self._lengths, self._tokens, rng)

    def _cut(self, places: Ids) -> Batch:
        source_length = self._source_lengths[places].max()
        target_length = self._target_lengths[places].max()
        target_output = self._target_output[places, :target_length]
        return Batch(self._source[places, :source_length], decoder_input(target_output), target_output)


class WindowBatches:
    """The batches of a text that is cut into windows of equal length; it has no state, so any epoch can be requested.

    Each epoch cuts the text at other places, so that a token is not always predicted from the same tokens before it.

    Parameters
    ----------
    ids : integer array, shape (n,)
        The tokens of the text.
    window : int
        T, the number of tokens in a window.
    tokens : int
        The maximum number of tokens in a batch.
    seed : int
        Determines, with the number of the epoch, the windows and their order.

    Raises
    ------
    ValueError
        If the text is shorter than a window, or a window is larger than a batch.
    """

    def __init__(self, ids: NDArray[np.integer], window: int, tokens: int, seed: int) -> None:
        if window > tokens:
            raise ValueError(f"WindowBatches: found windows of {window} tokens, but a batch may hold {tokens} at most")
        if len(ids) < window:
            raise ValueError(f"WindowBatches: found a text of {len(ids):,} tokens, expected {window} or more, a window")
        self._ids, self._window, self._seed = ids, window, seed
        self._rows = tokens // window
        self._windows = max(1, (len(ids) - window + 1) // window)
        self.batches_per_epoch = -(-self._windows // self._rows)
        """The number of batches of an epoch."""

    def epoch(self, number: int, start: int = 0) -> Iterator[TextBatch]:
        """Yield the batches of one epoch from index ``start`` on; they depend only on the seed and the number.

        Raises
        ------
        ValueError
            If `number` is negative or `start` is not between 0 and `batches_per_epoch`.
        """
        if number < 0 or not 0 <= start <= self.batches_per_epoch:
            raise ValueError(
                f"WindowBatches.epoch: found number={number} and start={start}, expected a number of 0 or more and a "
                f"start from 0 to {self.batches_per_epoch}, the batches of an epoch"
            )
        rng = _rng_of_epoch(self._seed, number)
        used = self._windows * self._window
        first = int(rng.integers(len(self._ids) - used + 1))
        windows = self._ids[first : first + used].reshape(self._windows, self._window)
        order = rng.permutation(self._windows)
        for batch in range(start, self.batches_per_epoch):
            rows = windows[order[batch * self._rows : (batch + 1) * self._rows]].astype(np.int64)
            yield TextBatch(decoder_input(rows), rows)


def all_batches(batches: ParallelBatches | WindowBatches, number: int = 0) -> Iterator[Batch | TextBatch]:
    """Yield the batches of all epochs, without the first ``number``."""
    epoch, start = divmod(number, batches.batches_per_epoch)
    while True:
        yield from batches.epoch(epoch, start)
        epoch, start = epoch + 1, 0
