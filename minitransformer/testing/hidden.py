"""What a function hides: arrays that it captures, and the line where a number stops being finite."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["captured_arrays", "changed_names", "where_not_finite"]

NUMPY = np.__file__.removesuffix("__init__.py")


def captured_arrays(*functions: Any) -> dict[str, Any]:
    """Return copies of the NumPy arrays that functions capture.

    These stand in closures, in globals that the functions name, and in the attributes of their object.
    """
    return {
        name: np.copy(array) for function in functions if function is not None for name, array in _captured(function)
    }


def changed_names(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of the arrays that differ."""
    return [
        name for name, old in before.items() if name in after and not np.array_equal(old, after[name], equal_nan=True)
    ]


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    owner = getattr(function, "__self__", None) or (None if inspect.isroutine(function) else function)
    for name, value in getattr(owner, "__dict__", {}).items() if not inspect.ismodule(owner) else ():
        yield from _arrays(f"self.{name}", value)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield from _arrays(name, cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    for name in code.co_names:
        yield from _arrays(name, function.__globals__.get(name))


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            if isinstance(part, np.ndarray) and part.dtype.kind in "fciub":
                yield f"{name}[{key!r}]", part
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            if isinstance(part, np.ndarray) and part.dtype.kind in "fciub":
                yield f"{name}[{i}]", part


def where_not_finite(call: Callable[[], Any]) -> str:
    """Return the first line, outside of NumPy, with a number that is not finite; empty if NumPy never warns of one."""
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except FloatingPointError as error:
            import traceback  # which takes long to load

            places = traceback.extract_tb(error.__traceback__)
            place = [p for p in places if not p.filename.startswith(NUMPY)][-1]
            return f"first in line {place.lineno} of {place.filename}, in {place.name}: {place.line} ({error})"
        except Exception:  # another call of the same function succeeded: this one cannot help
            return ""
    return ""
