"""A trigram model of tokens, the baseline of a language model."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minitransformer.arrays import as_indices


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
        V, the number of tokens, at most 2,097,151.

    Raises
    ------
    TypeError
        If ids are not whole numbers.
    IndexError
        If an id is not below V.
    """

    def __init__(self, ids: NDArray[np.integer], vocab: int) -> None:
        if vocab**3 >= 2**63:
            raise ValueError(
                f"Trigram: found {vocab:,} tokens, expected at most {2**21 - 1:,}: three ids make one int64"
            )
        self.vocab = vocab
        numbers = self._numbers(ids)
        self._counts = [_Counts(numbers, vocab, order) for order in range(3)]

    def probabilities(self, ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the probability of each token of a text, given the two before it: (n,) -> (n,)."""
        numbers = self._numbers(ids)
        p = np.full(len(numbers), 1 / self.vocab)
        for order, counts in enumerate(self._counts):
            p[order:] = counts.smooth(_keys(numbers, self.vocab, order), p[order:])
        return p

    def next(self, before: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of all tokens after one or two of them, or none: (..., k) -> (..., V)."""
        *texts, n = (ids := self._numbers(before)).shape
        p = np.full((math.prod(texts), self.vocab), 1 / self.vocab)
        for order, counts in enumerate(self._counts[: n + 1]):
            context = ids[..., n - order :] @ self.vocab ** np.arange(order)[::-1]
            p = counts.smooth_all(context.reshape(-1), p)
        return p.reshape(*texts, self.vocab)

    def _numbers(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return token ids, after a check that each is one."""
        as_indices(ids, self.vocab, "Trigram")
        return np.asarray(ids, dtype=np.int64)


class _Counts:
    """How often each token followed each context of ``order`` tokens.

    A context and its token are one number, whose digits to the base V are the tokens. So the tokens of a context are
    neighbours among the sorted numbers, and memory is needed only for what was seen.
    """

    def __init__(self, ids: NDArray[np.int64], vocab: int, order: int) -> None:
        self.vocab = vocab
        self.keys, self.numbers = np.unique(_keys(ids, vocab, order), return_counts=True)
        self.before = np.concatenate(([0], np.cumsum(self.numbers)))

    def smooth(self, keys: NDArray[np.int64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of keys from those of their tokens in the shorter context: (n,) -> (n,)."""
        _, kinds, seen = self._followers(keys // self.vocab)
        first, end = np.searchsorted(self.keys, (keys, keys + 1))
        return _smooth(self.before[end] - self.before[first], kinds, seen, lower)

    def smooth_all(self, contexts: NDArray[np.int64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of all tokens from those in the shorter contexts: (n, V) -> (n, V)."""
        first, kinds, seen = self._followers(contexts)
        rows = np.repeat(np.arange(len(contexts)), kinds)
        places = np.arange(len(rows)) + np.repeat(first - np.cumsum(kinds) + kinds, kinds)
        numbers = np.zeros(lower.shape, dtype=np.int64)
        numbers[rows, self.keys[places] % self.vocab] = self.numbers[places]
        return _smooth(numbers, kinds[:, None], seen[:, None], lower)

    def _followers(self, contexts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return where the tokens after each context begin, how many there are, and how often they were seen."""
        first, end = np.searchsorted(self.keys, (contexts * self.vocab, (contexts + 1) * self.vocab))
        return first, end - first, self.before[end] - self.before[first]


def _smooth(
    numbers: NDArray[np.int64], kinds: NDArray[np.int64], seen: NDArray[np.int64], lower: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.where(seen > 0, (numbers + kinds * lower) / np.maximum(seen + kinds, 1), lower)


def _keys(ids: NDArray[np.int64], vocab: int, order: int) -> NDArray[np.int64]:
    """Return each token with the ``order`` tokens before it as one number, where all of them exist."""
    keys = np.zeros(max(0, len(ids) - order), dtype=np.int64)
    for back in range(order, -1, -1):
        keys = keys * vocab + ids[order - back : len(ids) - back]
    return keys
