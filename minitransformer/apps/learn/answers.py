"""A learner's functions, loaded from their files for a training run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from minitransformer.apps.learn.bank import Exercise, find
from minitransformer.apps.learn.language import said
from minitransformer.apps.learn.referee import execute, explain
from minitransformer.apps.learn.verdict import Unsolved, Wrong


class Missing(Exception):
    """Functions of a learner's cannot be loaded; the message names the exercises, their files and the reasons.

    Attributes
    ----------
    names : tuple of str
        The exercises.
    """

    def __init__(self, message: str, names: Iterable[str]) -> None:
        super().__init__(message)
        self.names = tuple(names)


def load_answer(folder: Path, name: str) -> Callable[..., Any]:
    """Return the function that a learner wrote for an exercise.

    The answer is not checked.

    Raises
    ------
    Unsolved
        If nothing was written.
    Wrong
        If the exercise's file is broken or does not define the function.
    """
    exercise = find(name)
    path = folder / exercise.file
    try:
        defined = execute(exercise, path)
    except (Wrong, KeyboardInterrupt):
        raise
    except BaseException as error:  # such as sys.exit()
        raise Wrong(explain(error, {str(path)}).words) from error
    if _same_code(path.read_text(encoding="utf-8-sig"), exercise.text):
        raise Unsolved("The TODO is not done yet.")
    [asked] = exercise.asks_for
    if not callable(defined[asked]):
        raise Wrong(f"{asked} should be a function, found {type(defined[asked]).__name__}.")
    function: Callable[..., Any] = defined[asked]
    return function


def _same_code(one: str, other: str) -> bool:
    """Return whether two sources differ only in docstrings, comments and layout."""
    try:
        trees = [ast.parse(re.sub('""".*?"""', '""', text, flags=re.DOTALL)) for text in (one, other)]
        return ast.dump(trees[0]) == ast.dump(trees[1])
    except RecursionError:  # no exercise is as deep
        return False


def is_open(exercise: Exercise, path: Path) -> bool:
    """Return whether nothing was written into the file of an exercise, or there is none."""
    try:
        return not path.exists() or _same_code(path.read_text(encoding="utf-8-sig"), exercise.text)
    except ValueError:  # it is no Python, or no text
        return False


def load_answers(folder: Path, names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Return the functions that a learner wrote for several exercises, by the names of the exercises.

    Raises
    ------
    Missing
        If some cannot be loaded.
    """
    loaded, problems = {}, {}
    for name in names:
        try:
            loaded[name] = load_answer(folder, name)
        except Wrong as wrong:
            problems[name] = f"  {name}: {said(str(wrong).splitlines()[0])}\n    {folder / find(name).file}"
    if problems:
        number = "1 function is" if len(problems) == 1 else f"{len(problems)} functions are"
        raise Missing(said(f"{number} missing:") + "\n" + "\n".join(problems.values()), problems)
    return loaded
