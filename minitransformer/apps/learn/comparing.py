"""An answer compared with the expected result and with the exercise's known mistakes, all on the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitransformer.apps.learn.solutions import mistaken, mistaken_parts, results_of, solution_of
from minitransformer.apps.learn.verdict import agree, check_gradients


def check_result(exercise: str, name: str, answer: Callable[..., Any], given: Sequence[Any], expected: Any) -> None:
    """Raise ``Wrong`` if ``answer(*given)`` differs from the expected result."""
    agree(name, answer(*given), expected, mistakes=partial(mistaken, exercise, *given))


def check_backward(
    exercise: str,
    backward: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    given: Sequence[Any] | Callable[[Any], Sequence[Any]] | None = None,
    *,
    names: Sequence[str] | None = None,
    floats: bool = False,
    **options: Any,
) -> None:
    """Raise ``Wrong`` if ``backward(*given, d_output)`` differs from finite differences of a function.

    Parameters
    ----------
    exercise : str
        The exercise, whose known mistakes are called with the same arguments.
    backward : callable
        The answer.
    function : callable
        The function of the inputs.
    inputs : mapping of str to array
        Its inputs by name.
    given : sequence or callable, optional
        What ``backward`` gets before ``d_output``, by default the inputs; or a function of ``d_output`` that returns
        all arguments.
    names : sequence of str, optional
        What messages call the gradients; by default ``d_`` and the names of the inputs.
    floats : bool
        Whether arrays of no axes become Python's numbers.
    **options
        Those of ``check_gradients``.
    """
    names = [f"d_{name}" for name in inputs] if names is None else names
    before = list(inputs.values()) if given is None else given

    def arguments(d_output: Any) -> list[Any]:
        found = before(d_output) if callable(before) else [*before, d_output]
        return [float(x) if floats and np.ndim(x) == 0 else x for x in found]

    check_gradients(
        lambda d_output: backward(*arguments(d_output)),
        function,
        inputs,
        mistakes=lambda d_output: mistaken_parts(exercise, names, *arguments(d_output)),
        solution=lambda d_output: results_of(solution_of(exercise), len(names), *arguments(d_output)),
        names=names,
        **options,
    )
