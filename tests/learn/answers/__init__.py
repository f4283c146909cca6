"""Answers to the exercises, a file a chapter: ``wrong`` ones, with what must be said of them, and other ``right`` ones.

A wrong answer is one that a learner may well give. What must be said is some words, or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Wrong = tuple[str, "str | re.Pattern[str]", Any]
"""The exercise, what must be said, and the answer."""


class Mistakes(list[Wrong]):
    """Wrong answers, collected where they are written: ``@wrong("exercise", "words")`` before a function."""

    def __call__(self, name: str, words: str | re.Pattern[str]) -> Callable[[Any], Any]:
        """Return what takes a function, or any other answer."""

        def take(answer: Any) -> Any:
            self.append((name, words, answer))
            return answer

        return take
