"""Run and judge a learner's answer; errors in it become words, never a traceback through this package."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.learn.answers import execute, explain
from minitransformer.learn.bank import Exercise
from minitransformer.learn.verdict import Unsolved, Wrong
from minitransformer.learn.watch import watch

__all__ = ["Verdict", "judge", "judge_file"]

WIDTH = 78


@dataclass(frozen=True)
class Verdict:
    """What was found about an answer."""

    right: bool
    words: str
    """What is wrong, or nothing."""
    solved: bool = True
    """False while nothing has been written at the TODO."""

    def format(self, name: str) -> str:
        """Return the words to print, with the exercise's name before them, in lines of a terminal's width."""
        blocks = f"{name}: {'right.' if self.right else self.words}".split("\n\n")
        # What is indented is laid out already: code, a table, a drawing.
        return "\n\n".join(block if block[:1].isspace() else textwrap.fill(block, WIDTH) for block in blocks)


def judge_file(exercise: Exercise, path: Path) -> Verdict:
    """Run a learner's file and judge what it defines."""
    try:
        names = execute(exercise, path)
    except Wrong as wrong:
        return _refuse(wrong)
    return judge(exercise, [names[name] for name in exercise.asks_for], path)


def judge(exercise: Exercise, answers: list[Any], path: Path | None = None) -> Verdict:
    """Judge answers, in the order in which the exercise asks for them."""
    files = {answer.__code__.co_filename for answer in answers if hasattr(answer, "__code__")} | {str(path)}
    try:
        exercise.check(*map(watch, answers))
    except Wrong as wrong:
        return _refuse(wrong)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # such as sys.exit(), which would end the command without a word
        return _refuse(explain(error, files))
    return Verdict(True, "")


def _refuse(wrong: Wrong) -> Verdict:
    return Verdict(False, str(wrong), solved=not isinstance(wrong, Unsolved))
