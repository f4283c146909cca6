"""Answers to the exercises: ``all_wrong`` ones, with what must be said of them, and other ``all_right`` ones.

A wrong answer is one that a learner may well give. Most are edits of the solution: those that the checks know stand in
``mistakes.toml`` beside the exercises, others in this folder's lists, in the same notation. An answer that
cannot be written as an edit is a function. The expected feedback is some words, or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from minitransformer.apps.learn.bank import SOURCES
from minitransformer.apps.learn.solutions import read_mistakes, solution_of

Wrong = tuple[str, "str | re.Pattern[str]", Any]
"""The exercise, what must be said, and the answer."""


def in_other_forms(name: str, old: str, *forms: str) -> list[tuple[str, Any]]:
    """Return an exercise's solution with one piece written otherwise, once for each form."""
    return [(name, solution_of(name, (old, form))) for form in forms]


CHAPTERS = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
LISTS = [*sorted(SOURCES.glob("*/mistakes.toml")), *sorted(Path(__file__).parent.glob("*.toml"))]


def all_wrong() -> Iterator[Wrong]:
    """Yield the wrong answers, edits first."""
    for path in LISTS:
        for name, edits in read_mistakes(path).items():
            for one in edits:
                words = re.compile(one["matches"]) if "matches" in one else one["says"]
                yield name, words, solution_of(name, (one["old"], one["new"]))
    for chapter in CHAPTERS:
        yield from getattr(chapter, "wrong", ())


def all_right() -> Iterator[tuple[str, Any]]:
    """Yield right answers that do not look like the solution."""
    for chapter in CHAPTERS:
        yield from getattr(chapter, "right", ())
