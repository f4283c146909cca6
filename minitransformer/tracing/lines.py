"""What each line of an operation's forward and backward pass computes.

``sys.settrace`` reports when a line of a pass begins, and so when the previous line is done. The names that a line
binds, and the arrays that it writes into, are read from its source, so they do not depend on the numbers.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, xp
from minitransformer.autograd import Operation


class Value(NamedTuple):
    """An array that a line has bound to a name or written into."""

    step: str
    function: str
    """The operation whose pass the line is in."""
    line: int
    name: str
    array: Array
    depth: int
    """0 in the step's own operation, 1 in an operation that its pass calls, and so on."""


class Statement(NamedTuple):
    """A statement of a pass: its line, and the names that it binds, writes into and appends to."""

    line: int
    bound: tuple[str, ...]
    written: tuple[str, ...]
    appended: tuple[str, ...]


def _is_empty(node: ast.expr) -> bool:
    """Return whether an expression allocates an array without values, which later lines fill."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("empty", "empty_like")
    if isinstance(node, ast.IfExp):
        return _is_empty(node.body) or _is_empty(node.orelse)
    return isinstance(node, ast.ListComp | ast.GeneratorExp) and _is_empty(node.elt)


def _written_names(node: ast.expr) -> Iterator[str]:
    """Yield the names of the arrays that an assignment to this expression writes into."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        yield from _written_names(node.value)
    elif isinstance(node, ast.Call) and not _is_empty(node):
        for argument in node.args:
            yield from _written_names(argument)


def _read(node: ast.stmt) -> Statement:
    """Return the names that a statement, or the head of a compound one, binds or writes to."""
    heads: list[ast.AST]
    if isinstance(node, ast.For):
        heads = [node.target, node.iter]
    elif isinstance(node, ast.If | ast.While):
        heads = [node.test]
    elif isinstance(node, ast.With):
        heads = [*node.items]
    else:
        heads = [node]
    empty = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_empty(node.value)
    augmented = isinstance(node, ast.AugAssign)
    bound: list[str] = []
    written: list[str] = []
    appended: list[str] = []
    for inner in (inner for head in heads for inner in ast.walk(head)):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and not empty:
            (written if augmented else bound).append(inner.id)
        elif isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store):
            written += _written_names(inner)
        elif isinstance(inner, ast.Call):
            written += [name for word in inner.keywords if word.arg == "out" for name in _written_names(word.value)]
            if isinstance(inner.func, ast.Attribute) and inner.func.attr == "append":
                appended += _written_names(inner.func.value)
    skip = {inner.id for head in heads for c in ast.walk(head) if isinstance(c, ast.comprehension)
            for inner in ast.walk(c.target) if isinstance(inner, ast.Name)}  # fmt: skip

    def kept(names: list[str]) -> tuple[str, ...]:
        return tuple(n for n in dict.fromkeys(names) if not n.startswith(("_", "saved")) and n not in skip)

    return Statement(node.lineno, kept(bound), kept(written), kept(appended))


def _walk(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            yield from _walk(getattr(node, part, []))


@cache
def statements(function: Callable[..., Any]) -> dict[int, Statement]:
    """Return the statement to which each line of a function belongs; nothing if there is no source."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return {}
    [tree] = ast.parse(textwrap.dedent("".join(lines))).body
    if not isinstance(tree, ast.FunctionDef):
        return {}  # a lambda binds no names
    ast.increment_lineno(tree, first - 1)
    found: dict[int, Statement] = {}
    for node in _walk(tree.body):  # from outside to inside, so that the innermost one is kept
        statement = _read(node)
        found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), statement)
    return found


def arrays_in(name: str, value: Any) -> dict[str, Any]:
    """Return an array, or the arrays of a list or tuple, by name: ``projected[0]``."""
    if isinstance(value, list | tuple):
        parts = {f"{name}[{i}]": part for i, part in enumerate(value)}
        return parts if all(isinstance(part, _arrays()) for part in parts.values()) else {}
    return {name: value} if isinstance(value, _arrays()) else {}


def _arrays() -> tuple[type, ...]:
    return (np.ndarray, np.generic, xp.ndarray)


class Pass(NamedTuple):
    """A pass of an operation, under the operation's name."""

    name: str
    function: Callable[..., Any]


class LineTracer:
    """A trace function for ``sys.settrace`` that reports each value of each operation's passes.

    Parameters
    ----------
    step_of : callable
        ``step_of(frame)`` returns the key of the step that a pass runs in, or None if its values are not needed.
    see : callable
        ``see(value)`` is called with each `Value` when its line is done.
    """

    def __init__(self, step_of: Callable[[FrameType], str | None], see: Callable[[Value], None]) -> None:
        self.step_of, self.see = step_of, see
        self.passes = dict(_registered())
        self.running: list[str] = []
        """The step, once for each pass that is running in it."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace a function that begins, if it is a pass of an operation."""
        found = self.passes.get(frame.f_code)
        if found is None:
            if frame.f_code is Operation.__call__.__code__:
                self.passes |= passes_of(frame.f_locals["self"])
            return None
        step = self.running[-1] if self.running else self.step_of(frame)
        if step is None:
            return None
        self.running.append(step)
        return self._trace_lines(found, step, len(self.running) - 1)

    def _trace_lines(self, which: Pass, step: str, depth: int) -> Callable[[FrameType, str, Any], Any]:
        found = statements(which.function)
        last: dict[str, Any] = {}
        before: Statement | None = None

        def hand_on(locals_: dict[str, Any], statement: Statement) -> None:
            bound: dict[str, Any] = {}
            for name in statement.bound:
                if (value := locals_.get(name)) is not last.get(name):  # a loop's head is left without binding
                    last[name] = value
                    bound |= arrays_in(name, value)
            last.update(bound)
            for name in (*statement.written, *statement.appended):
                for part, array in arrays_in(name, locals_.get(name)).items():
                    fresh = name in statement.written or array is not last.get(part)
                    if fresh and not any(array is other for other in bound.values()):
                        last[part] = bound[part] = array
            for part, array in bound.items():
                self.see(Value(step, which.name, statement.line, part, array, depth))

        def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            now = found.get(frame.f_lineno) if event == "line" else None
            if event in ("line", "return"):
                if before is not None and now is not before:
                    hand_on(frame.f_locals, before)
                before = now
            if event == "return":
                self.running.pop()
                last.clear()  # this function refers to itself, so what it holds would stay until the next collection
            return trace_line

        return trace_line


def passes_of(operation: Operation) -> dict[CodeType, Pass]:
    """Return an operation's forward and backward pass by their code."""
    return {
        function.__code__: Pass(operation.name, function)
        for function in operation.written
        if hasattr(function, "__code__")
    }


@cache
def _registered() -> dict[CodeType, Pass]:
    return {code: found for operation in ops.registry.values() for code, found in passes_of(operation).items()}
