"""Functions for both searches: limits of length, and the choice of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.arrays import Array, is_whole, to_numpy, xp
from minitransformer.data import PAD, START
from minitransformer.nn import Model

Ids = NDArray[np.int64]

MORE_THAN_SOURCE = 50
"""The number of tokens by which a target sentence may exceed its source (section 6.1)."""
NEVER = [PAD, START]
"""Tokens that are never written; their probability is not redistributed."""

BLOCK = 128
"""The number of neighbouring tokens of which the best is found first, in a large vocabulary."""


class Diverged(FloatingPointError):
    """The scores of a model, its loss or a weight are no longer finite."""


def as_sources(source_ids: Any) -> Ids:
    """Return source sentences as a matrix on the host; their ids are checked by the model.

    Raises
    ------
    ValueError
        If they are not a matrix; an empty list is allowed.
    """
    ids = to_numpy(source_ids)
    if ids.shape == (0,):
        return np.zeros((0, 0), dtype=np.int64)
    if ids.ndim != 2:
        raise ValueError(f"decoding: source ids must have shape (B, Tk), found {ids.shape}; `pad` converts lists")
    return ids


def limits(source_ids: Ids, max_length: int | None = None) -> Ids:
    """Return the maximum number of tokens for each sentence, including the end token.

    Each sentence has its own limit, independent of the others in the batch.

    Parameters
    ----------
    source_ids : integer array, shape (B, Tk)
        Source sentences, padded with 0.
    max_length : int, optional
        The limit of all; by default the length of the source sentence plus 50.

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
    if not is_whole(max_length) or max_length < 0:
        raise ValueError(f"decoding: max_length must be a whole number of 0 or more, found {max_length!r}")
    return np.full(len(source_ids), max_length)


def longest_sentence(model: Model) -> int | None:
    """Return the maximum number of tokens of a sentence, including its end; None if there is no limit."""
    learned = model.target_embedding.positions
    return None if learned is None else len(learned)


def exclude(scores: Array) -> None:
    """Give the tokens that are never written the score -inf, in place: (..., V)."""
    scores[..., NEVER] = -xp.inf


def to_host(tokens: Array, scores: Array) -> tuple[Ids, Array]:
    """Return tokens and their scores on the host, in one transfer; raise Diverged if a score is NaN."""
    both = to_numpy(xp.stack((tokens, scores)))
    if np.isnan(both[1]).any():
        raise Diverged("the model's scores are not numbers (NaN): its training has diverged")
    return both[0].astype(np.int64), both[1]


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
    if n * BLOCK >= scores.shape[1] // 2:
        return _largest(scores, n)
    columns = _columns_of_best_blocks(scores, n)
    places, best = _largest(xp.take_along_axis(scores, columns, axis=1), n)
    return xp.take_along_axis(columns, places, axis=1), best


def _largest(scores: Array, n: int) -> tuple[Array, Array]:
    """Return the places of the n highest scores of each row, and the scores: (B, V) -> (B, n), (B, n)."""
    # For a small n, repeated searches for the maximum cost less than a partition, and they order equal scores.
    rows = xp.arange(len(scores))
    places = xp.empty((len(scores), n), dtype=xp.int64)
    best = xp.empty((len(scores), n), dtype=scores.dtype)
    for i in range(n):
        places[:, i] = scores.argmax(axis=-1)
        best[:, i] = scores[rows, places[:, i]]
        scores[rows, places[:, i]] = -xp.inf
    return places, best


def _columns_of_best_blocks(scores: Array, n: int) -> Array:
    """Return, in ascending order, columns among which are the n best of each row: (B, V) -> (B, n * BLOCK + rest).

    These are the n blocks with the highest maxima, and the columns after the last whole block. An element of another
    block is none of the n best: n maxima are higher, or equal with a lower index.
    """
    n_rows, n_blocks = len(scores), scores.shape[1] // BLOCK
    maxima = scores[:, : n_blocks * BLOCK].reshape(n_rows, n_blocks, BLOCK).max(axis=-1)
    # A block that has been found gets -inf, and must not be found again in a row of nothing else.
    found, _ = _largest(xp.maximum(maxima, xp.finfo(scores.dtype).min), n)
    found.sort(axis=1)
    inside = (BLOCK * found[:, :, None] + xp.arange(BLOCK)).reshape(n_rows, n * BLOCK)
    rest = xp.arange(n_blocks * BLOCK, scores.shape[1])
    return xp.concatenate((inside, xp.broadcast_to(rest, (n_rows, len(rest)))), axis=1)
