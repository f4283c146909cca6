"""Where the source of each operation and each elementary rule is."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from minitransformer import ops
from minitransformer.arrays import uses_kernels
from minitransformer.autograd import concatenate, rules
from minitransformer.override import in_use

PACKAGE = Path(__file__).parents[1]


class Source(NamedTuple):
    """A piece of a source file."""

    file: str
    """Relative to the package: ``ops/softmax.py``; of a file elsewhere the name alone."""
    first: int
    """The number of the first line."""
    lines: list[str]


def sources() -> dict[str, Source]:
    """Return the source of each operation's passes and of each elementary rule.

    The names are ``softmax.forward`` and ``softmax.backward`` for an operation, and ``multiply`` for a rule. A pass
    that has no source file, because it was typed in or compiled, is left out. Where another function replaces a pass,
    its source is shown; of a CUDA kernel, that of the pass.
    """
    found = dict(rule_sources())
    for name, operation in ops.registry.items():
        for part in ("forward", "backward"):
            used = getattr(operation.written, part) if uses_kernels() else in_use(getattr(operation, part))
            # a pass that calls a learner's functions names them
            sources = [source for one in getattr(used, "calls", [used]) if (source := _source_of(one)) is not None]
            if sources:
                found[f"{name}.{part}"] = _join(sources)
    return found


def _join(sources: list[Source]) -> Source:
    """Return several pieces as one, each after a comment that says where it is."""
    if len(sources) == 1:
        return sources[0]
    lines = [line for one in sources for line in (f"# {one.file}, line {one.first}", *one.lines, "")]
    return Source(", ".join(one.file for one in sources), 1, lines[:-1])


@cache
def _source_of(function: Any) -> Source | None:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    path = Path(inspect.getfile(function))
    file = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name
    return Source(file, first, [line.rstrip("\n") for line in lines])


@cache
def rule_sources() -> dict[str, Source]:
    """Return the source of each elementary rule."""
    file = Path(inspect.getfile(rules))
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    if (source := _source_of(concatenate)) is not None:
        found["concatenate"] = source
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_rule":
            [name, *_] = node.args
            assert isinstance(name, ast.Constant)
            place = file.relative_to(PACKAGE).as_posix()
            found[str(name.value)] = Source(place, node.lineno, lines[node.lineno - 1 : node.end_lineno])
    return found
