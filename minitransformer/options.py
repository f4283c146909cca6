"""Options: fields of frozen dataclasses, each declared once with its default, its range and the words that explain it.

A class of options derives from ``Options`` and is handed down whole to whatever reads it::

    @dataclass(frozen=True, kw_only=True)
    class SearchOptions(Options):
        beam: int = option(4, "hypotheses kept at each step", at_least=1)

    SearchOptions(beam=0)    # ValueError: beam must be at least 1, found 0

Everything else that knows of options reads these fields: the command line its names, help texts and defaults, a run
folder what it stores. A new option is one line here and its use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["Options", "option"]


def option(
    default: Any,
    help: str = "",
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[Any] = (),
    common: bool = False,
    path: bool = False,
    added: bool = False,
) -> Any:
    """Return a dataclass field that is an option.

    Parameters
    ----------
    default
        Its default. None, where the type allows it, stands for "off" or "what suits the rest"; it is in every range.
    help : str
        What the command line says of it; without a text it is no option of the command line.
    at_least, above, below : float, optional
        The range of its value, which is finite in any case.
    choices : sequence, optional
        The values that it may have.
    common : bool
        Whether most people need it: these options come first in the help of the command line.
    path : bool
        Whether it names a file or a folder.
    added : bool
        Whether runs of earlier versions lack it. Then its default is what they did.
    """
    metadata = {
        "help": help, "at_least": at_least, "above": above, "below": below, "choices": tuple(choices),
        "common": common, "path": path, "added": added,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options that check themselves.

    Raises
    ------
    ValueError
        If a value has the wrong type or is out of its range; the message names the option.
    """

    owner: ClassVar[str] = ""
    """Who is named in front of a message."""

    def __post_init__(self) -> None:
        self.check({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Raise a ValueError unless these values, all or some of the options, are possible."""
        prefix = f"{cls.owner}: " if cls.owner else ""
        fields, types = {field.name: field for field in dataclasses.fields(cls)}, get_type_hints(cls)
        for name, value in values.items():
            if name not in fields:
                raise ValueError(f"{prefix}there is no option {name!r}; the options are {', '.join(sorted(fields))}")
            if wanted := _fault(value, types[name], fields[name].metadata):
                raise ValueError(f"{prefix}{name} must be {wanted}, found {value!r}")

    def changed(self, **values: Any) -> Self:
        """Return these options with some values changed."""
        self.check(values)
        return dataclasses.replace(self, **values)


def _fault(value: Any, kind: Any, limits: Mapping[str, Any]) -> str | None:
    """Return what a value should have been, or None if it is possible."""
    if value is None and type(None) in get_args(kind):
        return None
    kinds = [one for one in get_args(kind) if one is not type(None)] if isinstance(kind, UnionType) else [kind]
    if limits.get("choices"):
        fits = any(value == choice and type(value) is type(choice) for choice in limits["choices"])
        return None if fits else f"one of {', '.join(map(str, limits['choices']))}"
    if not any(_fits(value, one) for one in kinds):
        return " or ".join(_WORDS.get(get_origin(one) or one, str(one)) for one in kinds)
    if isinstance(value, str | bool | Mapping):
        return None
    low, above, below = limits.get("at_least"), limits.get("above"), limits.get("below")
    inside = math.isfinite(value) and (low is None or value >= low) and (above is None or value > above)
    if inside and (below is None or value < below):
        return None
    words = [
        f"{word} {limit}"
        for word, limit in (("at least", low), ("above", above), ("below", below))
        if limit is not None
    ]
    return " and ".join(words) if math.isfinite(value) else "finite"


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Mapping: "a table of texts"}


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Mapping:
        return isinstance(value, Mapping) and all(isinstance(x, str) for pair in value.items() for x in pair)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return isinstance(value, kind)
