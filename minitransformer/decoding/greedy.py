"""Greedy decoding: at each step the most probable token."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import asarray, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.data import END, PAD, START
from minitransformer.nn import Transformer

__all__ = ["greedy"]


def greedy(model: Transformer, source_ids: Any, max_length: int | None = None) -> list[list[int]]:
    """Translate sentences, each step taking the token with the highest score.

    The keys and values of earlier positions are kept, so that each step computes one position. Sentences that have
    ended leave the batch. The model decodes without dropout, whether it is in training or not.

    Parameters
    ----------
    model : Transformer
        The model.
    source_ids : integer array, shape (B, Tk)
        Source sentences, each with its end token, padded with 0.
    max_length : int, optional
        The most tokens to write; by default 50 more than the source sentence has (section 6.1).

    Returns
    -------
    list of B lists of int
        The target sentences, without start and end tokens.
    """
    source_ids = np.asarray(source_ids)
    # Each sentence has a limit of its own, so that it does not matter which others are in the batch.
    limits = (source_ids != PAD).sum(axis=1) + 50 if max_length is None else np.full(len(source_ids), max_length)
    sentences: list[list[int]] = [[] for _ in source_ids]
    active = np.flatnonzero(limits > 0)  # which sentences have not ended
    training, model.training = model.training, False
    try:
        with no_grad():
            memory = model.encode(source_ids[active])
            mask = ops.padding_mask(source_ids[active])
            cache = model.new_cache()
            tokens = np.full(len(active), START)
            written = 0
            while active.size:
                logits = model.decode(tokens[:, None], memory, mask, cache)  # (B, 1, V)
                tokens = to_numpy(logits.data[:, -1].argmax(axis=-1))
                for sentence, token in zip(active.tolist(), tokens.tolist(), strict=True):
                    if token != END:
                        sentences[sentence].append(token)
                written += 1
                going = (tokens != END) & (limits[active] > written)
                if not going.all():
                    rows = asarray(np.flatnonzero(going))
                    active, tokens = active[going], tokens[going]
                    memory, mask = Tensor(memory.data[rows]), mask[rows]
                    for layer in cache:
                        for part in layer:
                            part.select(rows)
    finally:
        model.training = training
    return sentences
