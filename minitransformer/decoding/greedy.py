"""Greedy decoding: at each step the most probable token."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import xp
from minitransformer.data import END, START
from minitransformer.decoding.rules import PAPER, SearchOptions
from minitransformer.decoding.search import Ids, as_sources, exclude, to_host
from minitransformer.nn import Transformer


def greedy(
    model: Transformer, source_ids: Any, max_length: int | None = None, rules: SearchOptions = PAPER
) -> list[list[int]]:
    """Translate sentences by the token with the highest score at each step; of equal ones, the lowest id.

    The keys and values of earlier positions are kept, so that each step computes one position. Sentences that have
    ended leave the batch. The model decodes without dropout, also in training mode. Padding and the start
    token are never written.

    Parameters
    ----------
    model : Transformer
        The model.
    source_ids : integer array, shape (B, Tk)
        Source sentences, each with its end token, padded with 0.
    max_length : int, optional
        The maximum number of tokens to write, including the end token; by default 50 more than the source sentence has
        (section 6.1), unless the rules say otherwise; never more than the model's learned positions.
    rules : SearchOptions
        Which tokens may be written, and how many.

    Returns
    -------
    list of B lists of int
        The target sentences, without start and end tokens.

    Raises
    ------
    ValueError
        If the source ids are not a matrix, or ``max_length`` is negative.
    Diverged
        If the model's scores are not numbers.

    Examples
    --------
    >>> model = mt.nn.Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> (tokens,) = mt.decoding.greedy(model, [[3, 4, 2]], max_length=5)  # 2 ends the sentence
    >>> len(tokens) <= 5
    True
    """
    source_ids = as_sources(source_ids)
    return write(model, source_ids, rules.limits(model, source_ids, max_length), rules)


def write(model: Transformer, source_ids: Ids, most: Ids, rules: SearchOptions) -> list[list[int]]:
    """Return what `greedy` returns, with at most ``most`` tokens for each sentence, including the end token."""
    sentences: list[list[int]] = [[] for _ in source_ids]
    active = np.flatnonzero(most > 0)  # the sentences that have not ended
    if not active.size:
        return sentences
    cache = model.new_cache(source_ids[active])
    tokens = np.full(len(active), START)
    written = 0
    while active.size:
        logits = model.step(tokens[:, None], cache)[:, 0]  # (B, V)
        rules.restrict(logits, written, most[active] == written + 1)
        exclude(logits)
        best = logits.argmax(axis=-1)  # of equal ones the first
        tokens, _ = to_host(best, logits[xp.arange(len(best)), best])
        for sentence, token in zip(active.tolist(), tokens.tolist(), strict=True):
            if token != END:
                sentences[sentence].append(token)
        written += 1
        going = (tokens != END) & (most[active] > written)
        if not going.all():
            kept = cache.select(going)
            active, tokens = active[kept], tokens[kept]
    return sentences
