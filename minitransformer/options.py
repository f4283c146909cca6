"""Options: fields of frozen dataclasses, each declared once with its default, its range and its help text.

A class of options derives from ``Options``; its instances are passed on as a whole::

    @dataclass(frozen=True, kw_only=True)
    class SearchOptions(Options):
        beam: int = option(4, "hypotheses kept at each step", at_least=1)

    SearchOptions(beam=0)    # ValueError: beam must be at least 1, found 0

Options can contain other options. All names differ, so together they form one flat mapping, which the command line,
recipes and run folders use. All of these read the fields: a new option is one line in its class, and the code that
uses it.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from inspect import cleandoc, formatannotation
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Self, get_args, get_origin, get_type_hints

import numpy as np


class OptionError(ValueError):
    """A value of an option is impossible.

    Parameters
    ----------
    message : str
        What was found and what was expected.
    *names : str
        The options, as the message names them.
    """

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


class Declaration(NamedTuple):
    """The declaration of one option in its class."""

    metadata: Mapping[str, Any]
    """The arguments of `option`."""
    kind: Any
    """Its type."""
    part: str
    """The part that has it; empty for an option outside parts."""


def option(
    default: Any,
    help: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[Any] = (),
    common: bool = False,
    path: bool = False,
    flag: bool = True,
    added: bool = False,
    editable: bool = False,
) -> Any:
    """Return a dataclass field that is an option.

    Parameters
    ----------
    default
        Its default. None, where the type allows it, stands for "off" or "what suits the rest"; it is in every range.
    help : str
        Its description on the command line and in the docstring of its class.
    at_least, at_most, above, below : float, optional
        The range of its value, which must be finite. Without ``at_most``, a whole number is at most the largest
        index of an array.
    choices : sequence, optional
        The values that it may have.
    common : bool
        Whether most people need it: these options come first in the help of the command line.
    path : bool
        Whether it names a file or a folder.
    flag : bool
        Whether the command line has it.
    added : bool
        Whether runs of earlier versions lack it. Then its default is their behaviour.
    editable : bool
        Whether it may be edited in an existing run folder, because the weights do not depend on it so far. A path is
        editable, as data may be moved.
    """
    metadata = {
        "help": help, "at_least": at_least, "at_most": at_most, "above": above, "below": below,
        "choices": tuple(choices), "common": common, "path": path, "flag": flag, "added": added,
        "editable": editable or path,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options that check themselves; the docstring of a class lists them with their help.

    Raises
    ------
    OptionError
        If a value has the wrong type or is out of its range; the message names the option.
    """

    owner: ClassVar[str] = ""
    """The name at the start of a message."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """The names of options by those that files of earlier versions have."""

    def __init_subclass__(cls) -> None:
        summary, raises, errors = cleandoc(cls.__doc__ or "").partition("Raises\n")
        lines = [summary.strip(), "", "Parameters", "----------"]
        for name, kind in vars(cls).get("__annotations__", {}).items():
            kind = kind if isinstance(kind, str) else formatannotation(kind)
            if not kind.startswith("ClassVar"):
                told = getattr(vars(cls).get(name), "metadata", {})
                choices = ", ".join(map(repr, told.get("choices", ())))
                lines.append(f"{name} : {'{' + choices + '}' if choices else kind}")
                lines += textwrap.wrap(f"    {told.get('help', '')}", 100, subsequent_indent="    ")
        cls.__doc__ = "\n".join([*lines, "", raises + errors])

    @classmethod
    def from_flat(cls, values: object) -> Self:
        """Return the options of a flat table, as ``flat()`` returns it and a file holds it.

        Options that earlier versions lack may be missing, and may have the names of earlier versions.

        Raises
        ------
        OptionError
            If this is not a table, or a value is missing, unknown or impossible.
        """
        if not isinstance(values, Mapping):
            raise OptionError(f"found {type(values).__name__}, expected a table of options")
        values = cls.with_new_names(values)
        cls.check(values)
        declarations = cls.declarations()
        required = {name for name, declared in declarations.items() if not declared.metadata.get("added")}
        if missing := required - values.keys():
            raise OptionError(f"missing: {', '.join(sorted(missing))}", *missing)
        own = {name: value for name, value in values.items() if not declarations[name].part}
        rest = {name: value for name, value in values.items() if declarations[name].part}
        return cls(**own).changed(**rest) if rest else cls(**own)

    @classmethod
    def with_new_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return these values with the names of today; a name of an earlier version stays beside the new one."""
        values = dict(values)
        for old, name in cls.renamed.items():
            if old in values and name not in values:
                values[name] = values.pop(old)
        return values

    def __post_init__(self) -> None:
        self.check({name: getattr(self, name) for name, one in self.declarations().items() if not one.part})

    @classmethod
    @cache
    def declarations(cls) -> Mapping[str, Declaration]:
        """Return all options by name, including those of the parts, in order."""
        found: dict[str, Declaration] = {}
        types = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.metadata.get("option") is False:
                continue
            kind = types[field.name]
            if isinstance(kind, type) and issubclass(kind, Options):
                found |= {name: inner._replace(part=field.name) for name, inner in kind.declarations().items()}
            else:
                found[field.name] = Declaration(field.metadata, kind, "")
        return found

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Raise an OptionError unless these values, all or some of the options, are possible."""
        prefix, declarations = f"{cls.owner}: " if cls.owner else "", cls.declarations()
        for name, value in values.items():
            if name not in declarations:
                near = get_close_matches(name, declarations, n=1)
                hint = f"is {near[0]!r} meant?" if near else f"the options are {', '.join(sorted(declarations))}"
                raise OptionError(f"{prefix}there is no option {shown(name)}; {hint}", name)
            if wanted := _fault(value, declarations[name].kind, declarations[name].metadata):
                raise OptionError(f"{prefix}{name} must be {wanted}, found {shown(value)}", name)

    def changed(self, **values: Any) -> Self:
        """Return these options with some values changed, those of the parts included."""
        self.check(values)
        changes: dict[str, Any] = {}
        for name, value in values.items():
            changes.setdefault(self.declarations()[name].part, {})[name] = value
        own = changes.pop("", {})
        return dataclasses.replace(self, **own, **{k: getattr(self, k).changed(**v) for k, v in changes.items()})

    def flat(self) -> dict[str, Any]:
        """Return all values by name, those of the parts included."""
        return {
            name: getattr(getattr(self, one.part) if one.part else self, name)
            for name, one in self.declarations().items()
        }


def _fault(value: Any, kind: Any, limits: Mapping[str, Any]) -> str | None:
    """Return the expected kind of value, or None if the value is possible."""
    if value is None and type(None) in get_args(kind):
        return None
    kinds = [one for one in get_args(kind) if one is not type(None)] if isinstance(kind, UnionType) else [kind]
    if limits.get("choices"):
        fits = any(value == choice and type(value) is type(choice) for choice in limits["choices"])
        return None if fits else f"one of {', '.join(map(str, limits['choices']))}"
    if not any(_fits(value, one) for one in kinds):
        return " or ".join(map(_words, kinds))
    if limits.get("path"):
        return next(filter(None, map(fault_of_path, [value] if isinstance(value, str) else value)), None)
    if not isinstance(value, _NUMBERS):
        return None
    low, high, above, below = (limits.get(name) for name in ("at_least", "at_most", "above", "below"))
    finite = abs(value) <= sys.float_info.max  # also of whole numbers that no float can hold
    if finite and high is None and kinds == [int] and value > sys.maxsize:
        high = sys.maxsize
    inside = finite and (low is None or value >= low) and (above is None or value > above)
    if inside and (high is None or value <= high) and (below is None or value < below):
        return None
    words = [
        f"{word} {limit}"
        for word, limit in (("at least", low), ("at most", high), ("above", above), ("below", below))
        if limit is not None and math.isfinite(limit)
    ]
    return " and ".join(words if finite else [*words, "finite"])


def fault_of_path(path: str) -> str | None:
    """Return the expected kind of path, or None if a run folder can record it, and a file can have it."""
    if "\0" in path:
        return "a path without the character U+0000"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "a path in UTF-8, which a run folder can record (rename it, or set LC_ALL=C.UTF-8)"
    return None


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", object: "a value"}
_NUMBERS: tuple[Any, ...] = (int, float, np.integer, np.floating)
_SEVERAL = {Mapping: "a table of", Sequence: "a list of"}


def _words(kind: Any) -> str:
    """Return the name of a type in messages, such as "a list of numbers"."""
    if outer := _SEVERAL.get(get_origin(kind)):
        return f"{outer} {_WORDS[get_args(kind)[-1]].partition(' ')[2]}s"
    return _WORDS.get(kind, str(kind))


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Mapping:
        inner = get_args(kind)[1]
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and _fault(one, inner, {}) is None for name, one in value.items()
        )
    if get_origin(kind) is Sequence:
        inner = get_args(kind)[0]
        return isinstance(value, list | tuple) and all(_fault(one, inner, {}) is None for one in value)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, _NUMBERS) and not isinstance(value, bool)
    return isinstance(value, kind)


def shown(value: Any, most: int = 200) -> str:
    """Return a value for a message, cut to a maximum length."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a whole number of more than 4,300 digits"
    return text if len(text) <= most else f"{text[:most]}..."
