"""Strict reading of requests: each value of a JSON object has the kind and range that is expected, or is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from math import isfinite
from typing import Any, TypeVar

from minitransformer import tracing

T = TypeVar("T")

MOST_EDITS = 100
MOST_SAID = 600
"""The most characters of a message: a request may hold texts of any length."""
MISSING = object()

EDITS: Mapping[str, Any] = {
    re.sub("(?<!^)([A-Z])", r"_\1", kind.__name__).lower(): kind for kind in tracing.Edit.__subclasses__()
}
"""The edits by their ``kind`` in a request: ``set_entry``, ``set_weight``, and so on."""
OBJECTIVES: Mapping[str, Any] = {
    "loss": tracing.Loss,
    "log_probability": tracing.LogProbability,
    "difference": tracing.LogProbabilityDifference,
}
READERS = {"str": "text", "float": "number", "int": "integer", "bool": "flag"}
"""The method of `Body` that reads a field of an edit or objective, by its type; other types are several numbers."""


class RequestError(ValueError):
    """A request cannot be answered; the message says what was found, what was expected and what to do, in short."""

    def __init__(self, message: str) -> None:
        part = MOST_SAID // 2
        super().__init__(message if len(message) <= MOST_SAID else f"{message[:part]} ... {message[-part:]}")


class Body:
    """The JSON object of a request, read value by value.

    Parameters
    ----------
    name : str
        What messages call it, such as ``translate``.
    values : object
        The object.
    known : iterable of str
        The names that it may have.

    Raises
    ------
    RequestError
        If it is no object, or has other names.
    """

    def __init__(self, name: str, values: object, known: tuple[str, ...]) -> None:
        names = ", ".join(known)
        if not isinstance(values, Mapping):
            expected = f"an object with {names}" if known else "an empty object"
            raise RequestError(f"{name}: found {_shown(values)}, expected {expected}")
        if unknown := [key for key in values if key not in known]:
            expected = f"only {names}" if known else "an empty object"
            raise RequestError(f"{name}: found {_shown(unknown[0])}, expected {expected}")
        self.name, self.values = name, values

    def text(self, key: str, default: Any = MISSING) -> Any:
        """Return a text."""
        return self._read(key, default, lambda value: isinstance(value, str), "a text")

    def flag(self, key: str, default: Any = MISSING) -> Any:
        """Return true or false."""
        return self._read(key, default, lambda value: isinstance(value, bool), "true or false")

    def integer(self, key: str, default: Any = MISSING, least: int = 0, most: int = 2**31) -> Any:
        """Return a whole number from ``least`` to ``most``."""
        words = f"a whole number from {least} to {most:,}"
        return self._read(key, default, lambda value: _is_integer(value) and least <= value <= most, words)

    def number(self, key: str, default: Any = MISSING, least: float = -1e30, most: float = 1e30) -> Any:
        """Return a finite number from ``least`` to ``most``."""

        def fits(value: Any) -> bool:
            return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most

        return self._read(key, default, fits, f"a number from {least:g} to {most:g}")

    def integers(self, key: str, default: Any = MISSING, most: int = 10_000) -> Any:
        """Return a tuple of at most ``most`` whole numbers, 0 or more each."""

        def fits(value: Any) -> bool:
            return (
                isinstance(value, list)
                and len(value) <= most
                and all(_is_integer(one) and 0 <= one < 2**31 for one in value)
            )

        found = self._read(key, default, fits, f"a list of at most {most:,} whole numbers, 0 or more each")
        return tuple(found) if isinstance(found, list) else found

    def objects(self, key: str, most: int) -> list[Any]:
        """Return a list of at most ``most`` values; an empty one if there is none."""
        found = self._read(
            key, [], lambda value: isinstance(value, list) and len(value) <= most, f"a list of at most {most} objects"
        )
        return list(found)

    def _read(self, key: str, default: Any, fits: Any, expected: str) -> Any:
        value = self.values.get(key)
        if value is None:
            if default is MISSING:
                raise RequestError(f"{self.name}: {key} is missing, expected {expected}")
            return default
        if not fits(value):
            raise RequestError(f"{self.name}: {key} is {_shown(value)}, expected {expected}")
        return value


def read_objective(name: str, value: object) -> Any:
    """Return what is differentiated; by default the loss.

    Parameters
    ----------
    name : str
        The request, for messages.
    value : object
        ``{"kind": "loss"}``, ``{"kind": "log_probability", "position": 2, "token": 17}`` or the same with the kind
        ``difference`` and an ``other`` token.

    Raises
    ------
    RequestError
        If it is anything else.
    """
    if value is None:
        return tracing.Loss()
    chosen = _read_kind(name, "objective", value, OBJECTIVES)
    return _read_fields(f"{name}: objective", value, chosen)


def describe_objective(objective: Any) -> dict[str, Any]:
    """Return an objective as a request has it."""
    [kind] = [name for name, one in OBJECTIVES.items() if type(objective) is one]
    return {"kind": kind, **{name: getattr(objective, name) for name in _readers_of(objective)}}


def read_edits(name: str, values: list[Any]) -> tuple[Any, ...]:
    """Return edits: objects such as ``{"kind": "head_off", "step": STEP, "head": 1}``.

    Raises
    ------
    RequestError
        If one is anything else. Whether it fits the model is checked by tracing.
    """
    found = []
    for place, value in enumerate(values):
        chosen = _read_kind(name, f"edit {place + 1}", value, EDITS)
        found.append(_read_fields(f"{name}: edit {place + 1}", value, chosen))
    return tuple(found)


def _read_kind(name: str, what: str, value: object, kinds: Mapping[str, Any]) -> Any:
    kind = value.get("kind") if isinstance(value, Mapping) else value
    if not isinstance(kind, str) or kind not in kinds:
        raise RequestError(f"{name}: {what} has the kind {_shown(kind)}, expected one of {', '.join(kinds)}")
    return kinds[kind]


def _read_fields(name: str, value: Any, kind: Any) -> Any:
    readers = _readers_of(kind)
    body = Body(name, value, ("kind", *readers))
    return kind(**{field: getattr(body, reader)(field) for field, reader in readers.items()})


def _readers_of(kind: Any) -> dict[str, str]:
    """Return the method that reads each field of an edit or objective; fields with a default are not in requests."""
    return {one.name: READERS.get(str(one.type), "integers") for one in fields(kind) if one.default is NO_DEFAULT}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Return a value as JSON, cut to what a message can hold."""
    if isinstance(value, float) and not isfinite(value):
        return f"{value}"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
