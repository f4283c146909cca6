"""Where the source of each operation and each elementary rule is."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from minitransformer import ops
from minitransformer.autograd import concatenate, rules
from minitransformer.stand_ins import reference

__all__ = ["Source", "sources"]

PACKAGE = Path(__file__).parents[1]


class Source(NamedTuple):
    """A piece of a source file."""

    file: str
    """Relative to the package: ``ops/softmax.py``."""
    first: int
    """The number of the first line."""
    lines: list[str]


@cache
def sources() -> dict[str, Source]:
    """Return the source of each operation's passes and of each elementary rule.

    The names are ``softmax.forward`` and ``softmax.backward`` for an operation, and ``multiply`` for a rule.
    """
    found = {"concatenate": _source_of(concatenate), **_rules()}
    for name, operation in ops.registry.items():
        found[f"{name}.forward"] = _source_of(reference(operation.forward))
        found[f"{name}.backward"] = _source_of(reference(operation.backward))
    return found


def _source_of(function: Any) -> Source:
    lines, first = inspect.getsourcelines(function)
    file = Path(inspect.getfile(function)).relative_to(PACKAGE).as_posix()
    return Source(file, first, [line.rstrip("\n") for line in lines])


def _rules() -> dict[str, Source]:
    """Return the lines of each rule in the table."""
    file = Path(inspect.getfile(rules))
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_rule":
            [name, *_] = node.args
            assert isinstance(name, ast.Constant)
            assert node.end_lineno is not None
            place = rules.__file__ and file.relative_to(PACKAGE).as_posix()
            found[str(name.value)] = Source(place, node.lineno, lines[node.lineno - 1 : node.end_lineno])
    return found
