"""Keep what is solved in a notebook in the learner's folder, and find there what is solved.

The file of an exercise consists of the statements of the notebook's cells that define the answer and whatever these
use, as they were written and in the order in which they ran. It is kept only if a process of its own, which knows
nothing of the notebook, finds it right.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from symtable import SymbolTable, symtable
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from minitransformer.apps.learn.answers import is_open
from minitransformer.apps.learn.bank import FOOTER, Exercise, bank
from minitransformer.apps.learn.book import FOLDER, Book, find_folder
from minitransformer.apps.learn.language import said, say_source

SWITCH = "MINITRANSFORMER_RECORD"
"""The environment variable that, set to 0, keeps notebooks from recording anything."""
CLONE = Path(__file__).parents[3]


JUDGE = """
import json, pathlib, sys
from minitransformer.apps.learn import find, judge_in_child
verdict = judge_in_child(find(sys.argv[1]), pathlib.Path(sys.argv[2]))
print()
print(json.dumps([verdict.right, verdict.words]))
"""


class _NoCode(Exception):
    """The code of a function cannot be kept; the message says why."""


def in_notebook() -> bool:
    """Return whether this is a notebook, or another session of IPython, whose answers are recorded."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None and os.environ.get(SWITCH) != "0"


def _folder() -> Path:
    """Return the learner's folder; one that is not there yet is made beside the tutorials of a clone, or here."""
    found = find_folder()
    beside = Path(os.pardir) / FOLDER
    return beside if found == FOLDER and not found.exists() and Path.cwd().parent == CLONE else found


def record(exercise: Exercise, answers: Sequence[Any]) -> str:
    """Keep right answers in the learner's folder; return a line that says what was kept."""
    folder = _folder()
    try:
        book = Book.open(folder)
        path = book.path(exercise)
        if exercise.name in book.done and not is_open(exercise, path):
            return said(f"(solved in {path} before; that file stays as it is)")
        try:
            text = _write_file(exercise, answers)
        except _NoCode as reason:
            book.finish(exercise)
            return said(f"(solved in {folder}; the code is not kept: {reason})")
        with book.changing():
            kept = None if is_open(exercise, path) else book.keep(path, text)
            book.write(exercise, text)
            book.finish(exercise)
    except OSError as error:
        return said(f"(not kept: {folder} cannot be written: {error.strerror})")
    before = f"; your earlier file is {kept.name}" if kept else ""
    return said(f"(kept in {path}{before}; {len(book.done)} of {len(bank())} solved)")


def point_to(exercise: Exercise) -> str:
    """Return a line on where an exercise is solved; nothing if it is not."""
    book = Book(_folder())
    book.reread()
    path = book.path(exercise)
    if exercise.name not in book.done or is_open(exercise, path):
        return ""
    return said(f'Your solution is in {path}: mt.learn.load("{exercise.name}") returns it.') + "\n"


def _write_file(exercise: Exercise, answers: Sequence[Any]) -> str:
    """Return the text of an exercise's file with the functions of a notebook, which the check accepts."""
    shell = sys.modules["IPython"].get_ipython()
    statements = [*_statements(shell.history_manager.input_hist_parsed, shell.user_ns)]
    bound = {name for one in statements for name in one.binds}
    renamed, wanted = [], set()
    for asked, answer in zip(exercise.asks_for, answers, strict=True):
        names = sorted(name for name in bound if shell.user_ns.get(name) is answer)
        if not names:
            raise _NoCode(f"no variable of this notebook is this {type(answer).__name__}")
        name = next((name for name in names if name in (asked, getattr(answer, "__name__", ""))), names[0])
        wanted.add(name)
        if name != asked:
            renamed.append(f"{asked} = {name}")
    head = ast.get_docstring(ast.parse(say_source(exercise.text)), clean=False)
    text = "\n\n".join((f'"""{head}"""', _join(_needed(statements, wanted)), *renamed)) + "\n" + FOOTER
    right, words = _judge_elsewhere(exercise, text)
    if not right:
        raise _NoCode(f"by itself it is not right. {words.splitlines()[0]}")
    return text


def _judge_elsewhere(exercise: Exercise, text: str) -> tuple[bool, str]:
    """Judge the text of a file in a new process of Python."""
    path = os.pathsep.join(filter(None, (str(CLONE), os.environ.get("PYTHONPATH"))))
    with TemporaryDirectory() as place:
        file = Path(place, exercise.file)
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", JUDGE, exercise.name, str(file)]
        environment = os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
        try:
            done = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, encoding="utf-8", check=True
            )
            right, words = json.loads(done.stdout.splitlines()[-1])
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return False, f"{type(error).__name__}: {error}"
        return right, words.replace(str(file), file.name)


@dataclass(frozen=True)
class _Statement:
    """A statement that a notebook has run, with the global names that it binds or changes, and that it uses."""

    text: str
    binds: frozenset[str]
    uses: frozenset[str]


def _statements(cells: Sequence[str], names: Mapping[str, Any]) -> Iterator[_Statement]:
    """Yield the statements of cells, in the order in which they ran; ``names`` are those of the notebook."""
    declared: dict[str, set[str]] = {}  # by functions as global
    for cell in cells:
        try:
            tree = ast.parse(cell)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # it has not run
        for node in tree.body:
            match node:
                case ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [_, _, ast.Constant(str(inside))])):
                    yield from _statements([inside], names)  # such as %%time
                    continue
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            lines = cell.split("\n")[first - 1 : node.end_lineno]
            alone = [
                one for one in tree.body if one.lineno <= (node.end_lineno or 0) and (one.end_lineno or 0) >= first
            ]
            text = "\n".join(lines) if len(alone) == 1 else ast.get_source_segment(cell, node) or ""
            try:
                table = symtable(text, "cell", "exec")
            except (SyntaxError, RecursionError):  # only a notebook runs it, such as await
                continue
            for scope in table.get_children():
                writes = (one for one in scope.get_symbols() if one.is_declared_global() and one.is_assigned())
                declared[scope.get_name()] = {one.get_name() for one in writes}
            changed = {one for part in _now(node) for one in _changed(part, names, declared)}
            binds = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
            if isinstance(node, ast.ImportFrom) and (node.names[0].name == "*" or node.module == "__future__"):
                binds = {"*"}  # whatever the others use
            yield _Statement(text, frozenset(binds | changed), frozenset(_uses(table)) | changed)


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside it that run when it does: not what is inside functions."""
    waiting = [node]
    while waiting:
        yield (one := waiting.pop())
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(one)


def _changed(node: ast.AST, names: Mapping[str, Any], declared: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the names whose values a node may change without binding them."""
    match node:
        case ast.Call(ast.Name(function)):
            yield from declared.get(function, ())
        case ast.Call(ast.Attribute() as function, arguments):
            root = next(_root(function), "")
            if not isinstance(module := names.get(root), ModuleType):  # table.append(1)
                yield root
            elif module.__name__.partition(".")[0] in ("numpy", "random"):  # np.fill_diagonal(mask, True)
                yield from (one for argument in arguments[:1] for one in _root(argument))
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            yield from _root(node)  # table["a"].b = 1


def _root(node: ast.AST) -> Iterator[str]:
    """Yield the name of which a node is a part, if there is one."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _uses(table: SymbolTable, top: bool = True) -> Iterator[str]:
    """Yield the global names that a scope and those inside it use."""
    yield from (one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global()))
    for inside in table.get_children():
        yield from _uses(inside, top=False)


def _needed(statements: Sequence[_Statement], wanted: set[str]) -> list[_Statement]:
    """Return the statements that bind names, and all that these need, in order.

    A function uses what a name means when it is called, everything else what it meant before. So the last statement
    that binds a name is needed, and the last one before its use.
    """
    binders: dict[str, list[int]] = {}
    for i, one in enumerate(statements):
        for name in one.binds:
            binders.setdefault(name, []).append(i)
    kept = {*binders.get("*", ())}
    open_uses = [(len(statements), name) for name in wanted] + [(i, name) for i in kept for name in statements[i].uses]
    while open_uses:
        at, name = open_uses.pop()
        places = binders.get(name, [])
        for i in {*places[-1:], *[i for i in places if i < at][-1:]} - kept:
            kept.add(i)
            open_uses += [(i, used) for used in statements[i].uses]
    found, last = [], dict[str, str]()
    for one in (statements[i] for i in sorted(kept)):
        if one.binds & one.uses or any(last.get(name) != one.text for name in one.binds):  # no cell that ran again
            found.append(one)
        last |= dict.fromkeys(one.binds, one.text)
    return found


def _join(statements: Sequence[_Statement]) -> str:
    """Return the text of statements, with those first that have to be; blank lines surround those of several lines."""
    texts = sorted((one.text for one in statements), key=lambda text: not text.startswith("from __future__ "))
    text = texts[0]
    for before, after in pairwise(texts):
        text += ("\n\n\n" if "\n" in before + after else "\n") + after
    return text
