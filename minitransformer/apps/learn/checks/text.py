"""Subwords, scores and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from minitransformer.apps.learn.description import label
from minitransformer.apps.learn.solutions import mistaken_parts, wrong_solutions
from minitransformer.apps.learn.verdict import Wrong, agree, refuse_unsolved, take

MERGES: tuple[tuple[dict[str, int], tuple[str, str], dict[str, int]], ...] = (
    ({"g a t e": 5, "l a t e": 3, "p a t h": 2}, ("a", "t"), {"g at e": 5, "l at e": 3, "p at h": 2}),
    ({"s a t": 4, "ba t": 3, "a t a t": 2}, ("a", "t"), {"s at": 4, "ba t": 3, "at at": 2}),
    ({"a a a": 2, "a a b": 1, "b a": 1}, ("a", "a"), {"aa a": 2, "aa b": 1, "b a": 1}),
    ({"q u": 9, "a b": 1, "c a b": 1, "d a b": 1}, ("q", "u"), {"qu": 9, "a b": 1, "c a b": 1, "d a b": 1}),
    ({"c d": 3, "e f": 3, "a b": 3}, ("e", "f"), {"c d": 3, "ef": 3, "a b": 3}),
)
"""Words, the pair that is merged, and the words after it."""


def byte_pair_merge(merge: Callable[..., Any]) -> None:
    """Check overlaps, symbols within symbols, words that occur often, and pairs that occur equally often."""
    found = [_read_merge(merge(dict(words))) for words, *_ in MERGES]
    if found == [(pair, merged) for _, pair, merged in MERGES]:
        return
    causes = (
        says
        for says, wrong in wrong_solutions("byte-pair-merge")
        if [wrong(dict(words)) for words, *_ in MERGES] == found
    )
    for (words, *expected), answer in zip(MERGES, found, strict=True):
        for name, mine, right in zip(("pair", "words"), answer, expected, strict=True):
            if mine != right:
                cause = next(causes, "")
                lines = {"words": words, "found": mine, "expected": right} | ({"cause": cause} if cause else {})
                verb = "is" if name == "pair" else "are"
                raise Wrong(f"The {name} {verb} not right yet.\n\n" + "\n".join(label(*line) for line in lines.items()))


def _read_merge(found: Any) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the pair and the words of an answer."""
    pair, merged = take(("the pair", "the words"), found)
    refuse_unsolved(merged)
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(type(symbol) is str for symbol in pair):
        raise Wrong("The pair should be a tuple of two symbols, such as ('a', 't').")
    if type(merged) is not dict or not all(type(k) is str and type(n) is int for k, n in merged.items()):
        raise Wrong("The new words should be a dictionary like words: text with spaces, and how often it occurs.")
    return tuple(pair), merged


def clipped_matches(matches: Callable[..., Any]) -> None:
    """Check n-grams that one of the two has more often, and sentences shorter than n."""
    for translation, reference in (
        ("the dog the dog", "the dog sees the old man"),
        ("a rose is a rose is a rose", "a rose is a rose"),
        ("the cat saw the cat", "the cat and the cat and the cat"),
        ("old man", "the old man sees the sea"),
    ):
        for n in (1, 2, 3):
            _matches(matches, translation.split(), reference.split(), n)


def _matches(matches: Callable[..., Any], translation: list[str], reference: list[str], n: int) -> None:
    names = ("found", "total")
    mine, theirs = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (translation, reference))
    known = mistaken_parts("clipped-matches", names, translation, reference, n)
    inputs = f"translation: {' '.join(translation)}; reference: {' '.join(reference)}; n = {n}"
    expected = ((mine & theirs).total(), mine.total())
    for name, one, right in zip(names, take(names, matches(translation, reference, n)), expected, strict=True):
        agree(name, one, right, mistakes=known[name], inputs=inputs)


def layer_costs(multiplications: Callable[..., Any]) -> None:
    """Check the four numbers, for several sizes."""
    names = ("self-attention", "recurrent", "convolution", "restricted self-attention")
    for n, D, k, r in ((5, 3, 2, 1), (7, 4, 3, 2), (100, 64, 5, 8)):
        expected = 2 * n**2 * D, 2 * n * D**2, k * n * D**2, 2 * n * (2 * r + 1) * D
        known = mistaken_parts("layer-costs", names, n, D, k, r)
        for name, one, right in zip(names, take(names, multiplications(n, D, k, r)), expected, strict=True):
            agree(name, one, right, mistakes=known[name], inputs=f"n = {n}, D = {D}, k = {k}, r = {r}")
