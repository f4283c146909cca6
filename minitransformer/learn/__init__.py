"""Exercises that check themselves: from d(x y) to the backward pass of attention.

=================  ==========================================================================
``bank.py``        the exercises, their hints and solutions
``exercises/``     one source for each exercise and its solution, a folder for each chapter
``checks/``        what each exercise has to do, a file for each chapter
``verdict.py``     what is wrong, in words
``referee.py``     a learner's file or function is run and judged
``book.py``        the learner's own folder, and how far they have come
``clinic/``        trainings with one fault each, to be diagnosed and mended
=================  ==========================================================================

The command is ``minitransformer learn``. In a notebook::

    mt.learn.check("softmax-backward", my_function)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minitransformer.arrays import BackendError, backend, use
from minitransformer.learn.bank import Exercise, bank, find
from minitransformer.learn.book import FOLDER, Book, command
from minitransformer.learn.referee import Verdict, judge, judge_file

__all__ = ["FOLDER", "Book", "Exercise", "Verdict", "bank", "check", "check_file", "command", "find", "judge_file"]


def check(name: str, *answers: Any) -> bool:
    """Judge an answer to an exercise and print the verdict.

    Parameters
    ----------
    name : str
        The exercise, such as ``"softmax-backward"``.
    *answers
        What it asks for, in order: mostly one function.

    Returns
    -------
    bool
        Whether it is right.

    Raises
    ------
    LookupError
        If there is no such exercise.
    TypeError
        If there are more or fewer answers than the exercise asks for.
    BackendError
        If another array library than NumPy is in use.
    """
    exercise = find(name)
    if len(answers) != len(exercise.asks_for):
        raise TypeError(
            f"{exercise.name} asks for {', '.join(exercise.asks_for)}: {len(exercise.asks_for)} to be given after the "
            f"name, found {len(answers)}"
        )
    if backend() != "numpy":
        raise BackendError(f'exercises are in NumPy, found the array library {backend()}: call mt.use("numpy") first')
    return _report(exercise, judge(exercise, list(answers)))


def check_file(path: str) -> bool:
    """Judge a learner's file and print the verdict; return whether it is right."""
    exercise = find(path)
    use("numpy")  # exercises are plain NumPy, whatever the library for everything else is
    return _report(exercise, judge_file(exercise, Path(path)))


def _report(exercise: Exercise, verdict: Verdict) -> bool:
    print(verdict.format(exercise.name))
    return verdict.right
