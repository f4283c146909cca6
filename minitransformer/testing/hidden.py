"""What a function hides: arrays and numbers that it captures, and the line where a number stops being finite."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters import LIBRARIES, Plain, Tensors

LEVELS = 3
"""How deep objects and functions inside each other are searched."""
LONGEST = 1000
"""Longer lists and dictionaries are not searched."""
ADAPTERS = (*LIBRARIES, Tensors(), Plain(lambda: None))

NUMPY = np.__file__.removesuffix("__init__.py")
HERE = __file__.removesuffix("hidden.py")


class Hidden:
    """The arrays and numbers that functions capture; None is no function.

    They stand in closures, globals that a function names, defaults, ``functools.partial``, and attributes of
    objects, such as the parameters of a PyTorch module.
    """

    def __init__(self, *functions: Any) -> None:
        self._functions = [function for function in functions if function is not None]
        self._values = self._read()

    def changes(self) -> list[str]:
        """Return the names of what has changed since the last call of this method, or since the beginning."""
        before, self._values = self._values, self._read()
        return [name for name, old in before.items() if not _same(old, self._values.get(name))]

    def _read(self) -> dict[str, Array]:
        seen: set[int] = set()
        return {name: x for function in self._functions for name, x in _search("self", function, LEVELS, seen)}


def _same(old: Array, new: Array | None) -> bool:
    return new is not None and np.array_equal(old, new, equal_nan=True)


def _search(name: str, value: Any, levels: int, seen: set[int]) -> Iterator[tuple[str, Array]]:
    """Yield what is found in a value, with its name."""
    if isinstance(value, bool | int | float | complex):
        yield name, np.asarray(value)
        return
    if value is None or inspect.ismodule(value) or isinstance(value, type | str | bytes) or id(value) in seen:
        return
    seen.add(id(value))
    adapter = next((adapter for adapter in ADAPTERS if adapter.recognises(value)), None)
    if adapter is not None:
        try:
            array = np.array(adapter.to_numpy(value))
        except Exception:  # a sparse array, say: what cannot be read is not watched
            return
        if array.dtype.kind in "fciub":
            yield name, array
        return
    within = levels - (not isinstance(value, dict | list | tuple))
    for part, child in _parts(name, value) if levels else ():
        yield from _search(part, child, within, seen)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds directly, with its name."""
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((f"{name}[{key!r}]", part) for key, part in items if len(value) <= LONGEST)
    elif isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"argument {i} of the partial function", part) for i, part in enumerate(value.args))
        yield from value.keywords.items()
    elif inspect.ismethod(value) or inspect.isbuiltin(value):
        yield name, value.__self__
        yield from _captured(getattr(value, "__func__", None))
    elif inspect.isfunction(value):
        yield from _captured(value)
    else:
        yield from _attributes(name, value)
        if callable(value):
            yield name, getattr(value, "__wrapped__", None)
            yield from ((name, getattr(type(value), method, None)) for method in ("__call__", "forward"))


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function written in Python captures."""
    if not inspect.isfunction(function):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell
            continue
    yield from ((name, function.__globals__.get(name)) for name in code.co_names)
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    given = [*zip(names, defaults, strict=True), *(function.__kwdefaults__ or {}).items()]
    yield from ((f"the default of {name}", default) for name, default in given)


def _attributes(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    torch = sys.modules.get("torch")
    own = dict(getattr(value, "__dict__", {}))
    if torch is not None and isinstance(value, torch.nn.Module):
        yield from ((f"{name}.{key}", part) for key, part in value.named_parameters())
        yield from ((f"{name}.{key}", part) for key, part in value.named_buffers())
        own = {key: part for key, part in own.items() if key not in ("_parameters", "_buffers")}
    yield from ((f"{name}.{key}", part) for key, part in own.items())


def where_not_finite(call: Callable[[], Any]) -> str:
    """Return the first line, of code that is not NumPy's, with a number that is not finite; empty if none is known."""
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except FloatingPointError as error:
            import traceback  # which takes long to load

            places = traceback.extract_tb(error.__traceback__)
            place = [p for p in places if not p.filename.startswith(NUMPY)][-1]
            if place.filename.startswith(HERE):  # a function without Python lines, such as np.exp
                return ""
            words = f": {place.line}" if place.line else ""  # which Python does not know of what was typed
            return f"first in line {place.lineno} of {place.filename}, in {place.name}{words} ({error})"
        except Exception:  # another call of the same function succeeded: this one cannot help
            return ""
    return ""
