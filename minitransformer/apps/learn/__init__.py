"""Exercises with automatic checks: from d(x y) to the backward pass of attention.

The command is ``minitransformer learn``. In a notebook::

    mt.learn.check("softmax-backward", my_function)  # an exercise
    mt.learn.compare("best step", my_step, expected)  # a question that is not an exercise
    mt.learn.load("softmax-backward")  # the function that you have solved elsewhere
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.learn.answers import load_answers
from minitransformer.apps.learn.bank import Exercise, bank, find
from minitransformer.apps.learn.book import FOLDER, Book, command, find_folder
from minitransformer.apps.learn.child import judge_in_child, last_save
from minitransformer.apps.learn.language import said, speaking
from minitransformer.apps.learn.notebook import in_notebook, point_to, record
from minitransformer.apps.learn.referee import Verdict, judge, judge_file
from minitransformer.apps.learn.verdict import Unsolved, Wrong, agree, as_array, refuse_unsolved
from minitransformer.arrays import BackendError, backend, using


def check(name: str, *answers: Any) -> None:
    """Judge an answer to an exercise in a notebook and print the verdict.

    A right answer is kept in the folder of the exercises, so `learn list` and `train --with` know it. Nothing of the
    learner's is overwritten. Scripts, and ``MINITRANSFORMER_RECORD=0``, keep nothing.

    Parameters
    ----------
    name : str
        The exercise, such as ``"softmax-backward"``.
    *answers
        The answers, in the exercise's order: usually one function.

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
            f"{exercise.name} asks for {', '.join(exercise.asks_for)}: expected {len(exercise.asks_for)} after the "
            f"name, found {len(answers)}"
        )
    if backend() != "numpy":
        raise BackendError(f'exercises are in NumPy, found the array library {backend()}: call mt.use("numpy") first')
    verdict = judge(exercise, list(answers))
    _show(exercise.name, verdict)
    if in_notebook() and verdict.right:
        print(record(exercise, answers))
    elif in_notebook() and not verdict.solved:
        print(point_to(exercise), end="")


def load(name: str) -> Callable[..., Any]:
    """Return your own function for an exercise, from your folder; it is not checked.

    Parameters
    ----------
    name : str
        The exercise, such as ``"softmax-backward"``.

    Raises
    ------
    LookupError
        If there is no such exercise.
    Missing
        If the function cannot be loaded; the message names the file and the reason.
    """
    exercise = find(name)
    return load_answers(find_folder(), [exercise.name])[exercise.name]


def compare(name: str, found: Any, expected: Any, *, tolerance: float = 1e-9) -> None:
    """Compare an answer with the expected value, in a notebook, and print the verdict.

    Parameters
    ----------
    name : str
        The name of the answer, such as ``"best step"``.
    found : Any
        The answer; ``...`` if there is none yet.
    expected : Any
        The expected value.
    tolerance : float
        The allowed error of numbers, relative to the largest expected one. Other values must be equal; a tuple may
        stand for a list.
    """
    try:
        refuse_unsolved(found)
        if as_array(expected).dtype.kind in "biuf":
            agree("it", found, expected, tolerance=tolerance, mistakes=_usual_mistakes(found, expected, tolerance))
        elif _as_lists(found) != _as_lists(expected):
            raise Wrong(f"{found!r} is not right yet.")
    except Wrong as wrong:
        _show(name, Verdict(False, str(wrong), solved=not isinstance(wrong, Unsolved)))
    else:
        _show(name, Verdict(True, ""))


def _as_lists(value: Any) -> Any:
    """Return a value with lists in place of its tuples and arrays."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _as_lists(one) for name, one in value.items()}
    return [*map(_as_lists, value)] if isinstance(value, list | tuple) else value


def _usual_mistakes(found: Any, expected: Any, tolerance: float) -> dict[str, Any]:
    """Return what is wrong with numbers that are a simple function of the expected ones; nothing if it is not clear."""
    values, right = as_array(found), np.asarray(expected)
    if values.dtype.kind not in "iuf" or right.dtype.kind not in "iuf" or values.shape != right.shape:
        return {}
    if not values.any() or not right.any():  # zeros are a simple function of everything
        return {}
    right = right.astype(np.float64)
    with np.errstate(divide="ignore"):
        mistakes = {
            "the sign is wrong": -right,
            "it is the reciprocal of the right number": 1 / right,
            "it is 1 minus the right number": 1 - right,
            "it is 100 times too large: is it in per cent?": 100 * right,
            "it is 100 times too small: should it be in per cent?": right / 100,
        }
    for factor in (2, 10, 1000):
        mistakes[f"it is {factor} times too large"] = factor * right
        mistakes[f"it is {factor} times too small"] = right / factor
    near = min(max(tolerance, 1e-6), 0.01)
    fit = [says for says, wrong in mistakes.items() if np.allclose(values, wrong, rtol=near, atol=0)]
    return {fit[0]: values} if len(fit) == 1 else {}


def _show(name: str, verdict: Verdict) -> None:
    """Print a verdict below a notebook's cell."""
    print(verdict.format(name) if verdict.solved else said(f"{name}: replace the `...`, then run this cell again."))


def check_file(path: str) -> bool:
    """Judge a learner's file and print the verdict; return whether it is right."""
    exercise = find(path)
    # Exercises are plain NumPy, also with another array library in use.
    with using("numpy"), speaking(Book.language_of(Path(path).absolute().parents[1])):
        verdict = judge_file(exercise, Path(path))
        print(verdict.format(exercise.name))
    return verdict.right
