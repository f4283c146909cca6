"""Scores of texts against references; they are independent of any model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minitransformer.data import PAD
from minitransformer.data.extras import MissingExtraError
from minitransformer.data.text import comparable


@dataclass(frozen=True)
class Share:
    """A count and its total; the sum of two is the share over both sets of texts.

    Parameters
    ----------
    count, total : int
        The number that counts, and the number in all.
    """

    count: int
    total: int

    @property
    def value(self) -> float:
        """The quotient of the two.

        Raises
        ------
        ValueError
            If the total is 0.
        """
        if not self.total:
            raise ValueError(f"found {self.count} of 0, expected at least one text with a token")
        return self.count / self.total

    def __add__(self, other: Share) -> Share:
        return Share(self.count + other.count, self.total + other.total)


class Quality(NamedTuple):
    """A corpus score by sacrebleu."""

    value: float
    """From 0 to 100."""
    signature: str
    """Version and settings of the score; scores with different signatures cannot be compared."""
    details: str
    """The score in words, with its parts."""


def exact_match(found: Sequence[str], references: Sequence[Sequence[str]]) -> Share:
    """Count the texts that equal one of their references.

    Parameters
    ----------
    found : sequence of str
        The texts.
    references : sequence of sequences of str
        The references of each text; any of them is right.

    Returns
    -------
    Share
        The share of texts. Texts are compared as `comparable` returns them.

    Raises
    ------
    ValueError
        If there are not as many references as texts.
    """
    _check(found, references)
    pairs = zip(found, references, strict=True)
    right = sum(comparable(text) in map(comparable, several) for text, several in pairs)
    return Share(right, len(found))


def token_accuracy(best: NDArray[np.integer], wanted: NDArray[np.integer]) -> Share:
    """Count the tokens that are right, position by position.

    Parameters
    ----------
    best : ndarray of int, shape (B, Tq)
        The tokens with the highest score given all previous target tokens.
    wanted : ndarray of int, shape (B, Tq)
        The target tokens; padding is not counted.

    Returns
    -------
    Share
        The share of the tokens that are not padding.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    if best.shape != wanted.shape:
        raise ValueError(f"token_accuracy: found the shapes {best.shape} and {wanted.shape}, expected one shape")
    counts = wanted != PAD
    return Share(int(((best == wanted) & counts).sum()), int(counts.sum()))


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Count the edits that turn one sequence into the other (Levenshtein distance).

    Parameters
    ----------
    one, other : sequences
        Two strings, for example, or two lists of words.

    Returns
    -------
    int
        The fewest insertions, deletions and substitutions of one item each.
    """
    # above[j]: the distance between the items of `one` so far and the first j of `other`
    above = list(range(len(other) + 1))
    for i, item in enumerate(one, 1):
        row = [i]
        for j, its in enumerate(other, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (item != its)))
        above = row
    return above[-1]


def error_rate(found: Sequence[str], references: Sequence[Sequence[str]]) -> Share:
    """Count the edits that turn texts into their references, relative to the length of the references.

    For phones separated by spaces this is the phone error rate, for words the word error rate. It can exceed 1. (In the
    literature on pronunciation, word error rate means the share of words with any error, 1 - `exact_match`.)

    Parameters
    ----------
    found : sequence of str
        The texts.
    references : sequence of sequences of str
        The references of each text, at least one. The closest counts: the one with the fewest edits, and among several
        the shortest, which gives the highest rate.

    Returns
    -------
    Share
        The number of edits, and the length of the closest references in words.

    Raises
    ------
    ValueError
        If there are not as many references as texts, or a text has none.
    """
    _check(found, references)
    total = Share(0, 0)
    for text, several in zip(found, references, strict=True):
        items, candidates = text.split(), map(str.split, several)
        edits, length = min((edit_distance(items, candidate), len(candidate)) for candidate in candidates)
        total += Share(edits, length)
    return total


def bleu(found: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = "13a") -> Quality:
    """Measure corpus BLEU with sacrebleu.

    Parameters
    ----------
    found : sequence of str
        The translations.
    references : sequence of sequences of str
        The references of each text, at least one.
    tokenize : str, default "13a"
        How sacrebleu splits texts into words; "none" for texts that are split already, by spaces.

    Returns
    -------
    Quality

    Raises
    ------
    ValueError
        If there are not as many references as texts, a text has none, or sacrebleu has no such tokeniser here.
    MissingExtraError
        If sacrebleu is not installed.
    """
    metrics = _sacrebleu()
    if tokenize not in metrics.BLEU.TOKENIZERS:
        known = ", ".join(sorted(metrics.BLEU.TOKENIZERS))
        raise ValueError(f"bleu: found tokenize={tokenize!r}, expected one of {known}")
    try:
        # force: no warning about text that looks tokenised
        metric = metrics.BLEU(tokenize=tokenize, force=True)
    except (ImportError, OSError, RuntimeError) as error:  # some of its tokenisers need more packages, or the network
        words = " ".join(str(error).split())
        raise ValueError(f"bleu: sacrebleu's tokenize={tokenize!r} cannot be used here: {words}") from error
    return _measure(metric, found, references)


def chrf(found: Sequence[str], references: Sequence[Sequence[str]]) -> Quality:
    """Measure corpus chrF with sacrebleu: an F-score of character n-grams.

    Parameters
    ----------
    found : sequence of str
        The translations.
    references : sequence of sequences of str
        The references of each text, at least one.

    Returns
    -------
    Quality

    Raises
    ------
    ValueError
        If there are not as many references as texts, or a text has none.
    MissingExtraError
        If sacrebleu is not installed.
    """
    return _measure(_sacrebleu().CHRF(), found, references)


def _measure(metric: Any, found: Sequence[str], references: Sequence[Sequence[str]]) -> Quality:
    _check(found, references)
    # sacrebleu wants all first references, then all second ones; None where there is none
    most = max(map(len, references))
    streams = [[several[i] if i < len(several) else None for several in references] for i in range(most)]
    score = metric.corpus_score(list(found), streams)
    return Quality(float(score.score), str(metric.get_signature()), str(score))


def _check(found: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(found) != len(references):
        raise ValueError(
            f"found {len(found):,} texts, but references for {len(references):,}; expected the same number"
        )
    if not found:
        raise ValueError("found no texts, expected at least one")
    for place, several in enumerate(references):
        if isinstance(several, str) or not several:
            raise ValueError(f"the references of text {place} are {several!r}, expected a list of at least one text")


def _sacrebleu() -> Any:
    try:
        return import_module("sacrebleu.metrics")
    except ImportError as error:
        raise MissingExtraError("BLEU and chrF", "sacrebleu", "scores") from error
