"""The solutions of the exercises as functions, and the same with a mistake: an edit of one line.

``exercises/NN-chapter/mistakes.toml`` lists likely mistakes under the names of the exercises, each with the sentence
that the learner reads::

    [[softmax-backward]]
    old = "(d_y - row_sum)"    # text that occurs once in the solution
    new = "d_y"                # text in its place
    says = "the row sum is missing: ..."

A check runs the edited solutions on its own cases and compares their results with a wrong answer. The tests give the
same edited solutions as answers. The broken scripts of the clinic and the planted faults of the tests are edits too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.learn.bank import SOURCES, find
from minitransformer.apps.learn.watch import copy_inputs


def edit(text: str, old: str, new: str, where: str) -> str:
    """Return a text with one piece replaced.

    Raises
    ------
    ValueError
        If the piece does not occur exactly once; the message says ``where``.
    """
    if (times := text.count(old)) != 1:
        raise ValueError(f"{where}: found {old!r} {times} times, expected it once")
    return text.replace(old, new)


@cache
def solution_of(name: str, *edits: tuple[str, str]) -> Callable[..., Any]:
    """Return the function that solves an exercise, as it is or with edits, each old and new text."""
    exercise, names = find(name), {"__name__": f"solution_{name}"}
    text, where = exercise.solution, f"the solution of {name}"
    for old, new in edits:
        text = edit(text, old, new, where)
    exec(compile(text, where, "exec"), names)
    [asked] = exercise.asks_for
    function: Any = names[asked]
    return function


@cache
def read_mistakes(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the edits of a list by the names of the exercises: each with ``old``, ``new`` and what it ``says``."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def results_of(function: Callable[..., Any], n: int, *inputs: Any) -> list[Any]:
    """Return the ``n`` results of a function, which is given copies of the inputs."""
    found = function(*(deepcopy(x) if isinstance(x, np.random.Generator) else copy_inputs(x) for x in inputs))
    return [found] if n == 1 else list(found)


@cache
def wrong_solutions(name: str, *edits: tuple[str, str]) -> list[tuple[str, Callable[..., Any]]]:
    """Return the solutions of an exercise with one known mistake each, after its sentence; all have the same edits."""
    mistakes = read_mistakes((SOURCES / find(name).file).with_name("mistakes.toml")).get(name, ())
    return [(one["says"], solution_of(name, (one["old"], one["new"]), *edits)) for one in mistakes]


def mistaken(name: str, *inputs: Any) -> dict[str, Any]:
    """Return the results of an exercise's known mistakes on some inputs, each under its sentence."""
    return mistaken_parts(name, ["result"], *inputs)["result"]


def mistaken_parts(
    name: str, parts: Sequence[str], *inputs: Any, edits: Sequence[tuple[str, str]] = ()
) -> dict[str, dict[str, Any]]:
    """Return the results of known mistakes for each named part of the result.

    Mistakes that fail on these inputs, such as a forgotten transpose, are left out. All solutions have the ``edits``.
    """
    known: dict[str, dict[str, Any]] = {part: {} for part in parts}
    right = results_of(solution_of(name, *edits), len(parts), *inputs)
    for says, wrong in wrong_solutions(name, *edits):
        with suppress(Exception), np.errstate(all="ignore"):
            for part, found, expected in zip(parts, results_of(wrong, len(parts), *inputs), right, strict=True):
                if says not in known[part] or np.array_equal(known[part][says], expected):
                    known[part].pop(says, None)  # of several, the first that is wrong counts, in its place
                    known[part][says] = found
    return known
