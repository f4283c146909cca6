"""A trigram model of tokens: what a language model has to surpass."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Trigram:
    """The probabilities of a token given the two before it, by counting, smoothed as by Witten and Bell.

    After a context h that was seen n(h) times with T(h) different tokens, a token c that followed it n(h c) times has
    the probability

        p(c | h) = (n(h c) + T(h) p(c | h')) / (n(h) + T(h))

    where h' is the context without its first token: two tokens, one, none, and at last 1 / V.

    Source: The Zero-Frequency Problem (Witten and Bell, 1991), method C, interpolated.

    Parameters
    ----------
    ids : integer array, shape (n,)
        The text to count in.
    vocab : int
        V, the number of tokens.
    """

    def __init__(self, ids: NDArray[np.integer], vocab: int) -> None:
        self.vocab = vocab
        self._counts = [_Counts(np.asarray(ids, dtype=np.int64), vocab, order) for order in range(3)]

    def probabilities(self, ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the probability of each token of a text, given the two before it: (n,) -> (n,)."""
        numbers = np.asarray(ids, dtype=np.int64)
        p = np.full(len(numbers), 1 / self.vocab)
        for order, counts in enumerate(self._counts):
            p[order:] = counts.smooth(_keys(numbers, self.vocab, order), p[order:])
        return p

    def next(self, before: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of all tokens after one or two of them, or none: (..., k) -> (..., V)."""
        *texts, n = (ids := np.asarray(before, dtype=np.int64)).shape
        p, every = np.full((*texts, self.vocab), 1 / self.vocab), np.arange(self.vocab)
        for order, counts in enumerate(self._counts[: n + 1]):
            context = np.zeros((*texts, 1), dtype=np.int64)
            for place in range(n - order, n):
                context = context * self.vocab + ids[..., place, None]
            p = counts.smooth(context * self.vocab + every, p)
        return p


class _Counts:
    """How often each token followed each context of so many tokens.

    A context and its token are one number, whose digits to the base V are the tokens.
    """

    def __init__(self, ids: NDArray[np.int64], vocab: int, order: int) -> None:
        self.vocab = vocab
        self.keys, self.numbers = np.unique(_keys(ids, vocab, order), return_counts=True)
        contexts = self.keys // vocab
        self.seen = np.bincount(contexts, weights=self.numbers, minlength=vocab**order)
        self.kinds = np.bincount(contexts, minlength=vocab**order)

    def smooth(self, keys: NDArray[np.int64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of keys from those of their tokens in the shorter context."""
        if not len(self.keys):
            return lower
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        numbers = np.where(self.keys[places] == keys, self.numbers[places], 0)
        seen, kinds = self.seen[keys // self.vocab], self.kinds[keys // self.vocab]
        return np.where(seen > 0, (numbers + kinds * lower) / np.maximum(seen + kinds, 1), lower)


def _keys(ids: NDArray[np.int64], vocab: int, order: int) -> NDArray[np.int64]:
    """Return each token with the ``order`` tokens before it as one number, from the first that has so many."""
    keys = np.zeros(max(0, len(ids) - order), dtype=np.int64)
    for back in range(order, -1, -1):
        keys = keys * vocab + ids[order - back : len(ids) - back]
    return keys
