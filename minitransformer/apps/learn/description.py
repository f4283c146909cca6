"""A result beside the expected one: which entries differ, by how much, and the likely cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from minitransformer.apps.learn.language import fill, said
from minitransformer.console import gather, spread
from minitransformer.testing import fits, likely_causes

NOISE = 1e-14
"""Smaller numbers, relative to the largest expected one, are shown as 0."""
LARGEST_GRID = 16
"""Results with more rows or columns than this are not drawn."""


def _numbers(found: Any, expected: Any) -> tuple[str, str]:
    """Write both numbers with enough digits, at least six, to show the difference."""
    written = ("", "")
    for digits in range(6, 18):
        one, other = (f"{x:.{digits}g}" if isinstance(x, float | np.floating) else str(x) for x in (found, expected))
        written = (one, other)
        if one != other:
            break
    return written


def _grid(right: np.ndarray) -> list[str]:
    """Draw which entries are right: the last two axes, at the first index of the others with a wrong entry."""
    while right.ndim > 2:
        right = right[int(np.argmin(right.reshape(len(right), -1).all(axis=1)))]
    right = np.atleast_2d(right)
    if right.size < 2 or max(right.shape) > LARGEST_GRID:
        return []
    rows = ["      " + " ".join("." if entry else "x" for entry in row) for row in right]
    rows[0] += said("        . right   x wrong")
    return ["", *rows]


def label(name: str, value: object) -> str:
    """Return a line of a verdict: a name and a value, in the learner's language."""
    return fill(str(value), gather(f"  {spread(said(name)):<9}"), " " * 11)


Mistakes = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""The results of known mistakes, each under the sentence that names it; or a function that returns them."""


@dataclass
class Comparison:
    """A result beside the expected one."""

    name: str
    found: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray
    """Which entries are wrong; a single True if the shape is."""
    mistakes: Mistakes
    sizes: Mapping[str, int]
    inputs: str
    advice: Sequence[str]
    others: Sequence[Comparison] = field(default_factory=list)
    """The comparisons of the same result in other cases."""

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """The results of known mistakes."""
        return self.mistakes() if callable(self.mistakes) else self.mistakes

    @property
    def result(self) -> str:
        """The name of the result, without the words on its case."""
        return re.split(r",| for | with | at | if |[(\[]", self.name)[0]

    def describe(self) -> str:
        """Return what is wrong, where, and why if one cause explains all cases."""
        with np.errstate(all="ignore"):
            causes = likely_causes(self.found, self.expected, self.known, self.sizes)
            cause = next((one for one in causes if all(other._admits(one, self.known) for other in self.others)), "")
        values, expected = self.found, self.expected
        because = [label(*line) for line in (("cause", cause), ("inputs", self.inputs)) if line[1]]
        if values.shape != expected.shape:
            wanted = str(expected.shape) if expected.ndim else "a number"
            title = f"{self.name} has the wrong shape."
            lines = [label("found", str(values.shape)), label("expected", wanted), *because]
        else:
            title = f"{self.name} is not right yet."
            lines = [*self._worst(), *because, *_grid(~self.wrong)]
        return "\n\n".join(["\n".join([title, "", *lines]), *self.advice])

    def _worst(self) -> Iterator[str]:
        """Yield how many entries are wrong, and the worst of them."""
        values, expected, where = self.found, self.expected, ""
        place = place_of_largest(_badness(values, expected, self.wrong))
        if expected.ndim:
            yield label("shape", f"{values.shape}, as it should be")
            yield label("entries", f"{np.count_nonzero(self.wrong)} of {self.wrong.size} are wrong")
            where = f"at [{', '.join(map(str, place))}]: "
        one, other = _numbers(_without_noise(values[place], expected), expected[place])
        yield label("worst" if where else "number", f"{where}found {one}, should be {other}")

    def _admits(self, cause: str, known: Collection[str]) -> bool:
        """Return whether a cause in another case, where these mistakes are known, explains this case as well."""
        if cause in self.known:
            return fits(self.found, self.known[cause])
        if cause in known:
            return True
        if not self.wrong.any():  # zeros and a wrong sign are so in every case
            changed = np.zeros_like(self.expected), -1 * self.expected
            return all(cause not in likely_causes(one, self.expected) for one in changed)
        here = map(_without_numbers, likely_causes(self.found, self.expected, sizes=self.sizes))
        return _without_numbers(cause) in here


def _without_noise(number: Any, expected: np.ndarray) -> Any:
    """Return a number, or 0 if it is a rounding error beside the expected ones: those differ between machines."""
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    return 0.0 if abs(number) < NOISE * largest else number


def _without_numbers(sentence: str) -> str:
    """Return a sentence without the numbers of its case."""
    return re.sub(r"[-+]?\b\d[\d.]*(e[-+]\d+)?", "#", sentence).replace("entries are", "entry is")


def place_of_largest(x: np.ndarray) -> tuple[Any, ...]:
    """Return the index of the largest entry; of those that are equal up to rounding, the first on every processor."""
    x = np.where(np.isnan(x), np.inf, x)
    return np.unravel_index(int(np.argmax(x >= x.max() * (1 - 1e-6))), x.shape)


def _badness(values: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(values.astype(np.float64) - expected.astype(np.float64))
    return np.where(wrong, np.where(np.isfinite(distance), distance, np.inf), -1.0)
