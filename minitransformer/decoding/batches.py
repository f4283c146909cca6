"""Decoding any number of sentences, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minitransformer.data import pad
from minitransformer.decoding.search import Ids

T = TypeVar("T")

Spread = Callable[[Callable[[Sequence[Any]], list[Any]], Sequence[Any]], list[Any]]
"""Calls a function that maps items to values, and returns the values. One of several processes may call it with some of
the items, and receive the values of the others from the other processes."""

TOKENS = 2**15
"""The maximum number of tokens in a batch, padding included: one long sentence pads its whole batch."""


def everything(function: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Return a function's values for all items: the `Spread` of a single process."""
    return function(items)


def in_batches(
    search: Callable[[Ids], list[T]],
    sources: Sequence[Sequence[int]],
    size: int = 64,
    spread: Spread = everything,
) -> list[T]:
    """Decode any number of sentences, those of similar length together.

    Parameters
    ----------
    search : function
        Takes an integer array (B, Tk) of padded source sentences and returns a list of B results, as in
        ``lambda ids: beam_search(model, ids, beam=5)``.
    sources : sequence of sequences of int
        Source sentences, each with its end token.
    size : int
        The maximum number of sentences in a batch; fewer if they have more than 32,768 tokens, padding included.
    spread : callable
        Distributes the batches among processes; see `Spread`. The batches do not depend on the number of processes.

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
    batches: list[list[int]] = []
    for i in order:
        if not batches or len(batches[-1]) == size or (len(batches[-1]) + 1) * len(sources[i]) > TOKENS:
            batches.append([])
        batches[-1].append(i)

    def decode(batches: Sequence[list[int]]) -> list[list[T]]:
        return [search(pad([sources[i] for i in places])) for places in batches]

    results = spread(decode, batches)
    by_place = {
        i: result
        for places, batch in zip(batches, results, strict=True)
        for i, result in zip(places, batch, strict=True)
    }
    return [by_place[i] for i in range(len(sources))]
