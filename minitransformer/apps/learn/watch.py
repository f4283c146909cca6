"""Watch the calls of a learner's function: it must not change its inputs."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from minitransformer.apps.learn.verdict import refuse_writing


def watch(answer: Any) -> Any:
    """Return a function that calls the answer with copies, and raises ``Wrong`` if the call has written to one.

    The message calls the input by the learner's own name for it. Values that are not callable are returned unchanged.
    """
    if not callable(answer):
        return answer
    names = _parameters(answer)

    @wraps(answer)
    def watched(*inputs: Any) -> Any:
        given = copy_inputs(inputs)
        found = call(answer, given)
        called = names + [f"argument {i + 1}" for i in range(len(names), len(inputs))]
        refuse_writing(**dict(zip(called, zip(given, inputs, strict=True), strict=False)))
        return found

    return watched


def call(answer: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Call a learner's function. An error that passes through here is the learner's; see `is_the_learners`."""
    return answer(*inputs)


def is_the_learners(error: BaseException) -> bool:
    """Return whether an error was raised in a call of a learner's function."""
    return any(frame.f_code is call.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _parameters(answer: Callable[..., Any]) -> list[str]:
    """Return the names of a function's positional parameters, if they are known."""
    try:
        parameters = inspect.signature(answer).parameters.values()
    except Exception:  # functions of NumPy; whatever an object's own signature raises
        return []
    return [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def copy_inputs(value: Any) -> Any:
    """Copy arrays and their containers; functions are not copied."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {name: copy_inputs(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(copy_inputs(part) for part in value)
    return value
