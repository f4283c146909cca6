"""Keep what is solved in a notebook in the learner's folder, and find there what is solved.

The file of an exercise consists of the statements of the notebook's cells that define the answer and whatever these
use, as they were written and in the order in which they ran. A new process, which knows nothing of the notebook, has to
find the file right. If it does not, another process runs all cells, and the statements that raise no error make the
file. If that is not right either, no code is kept.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from symtable import SymbolTable, symtable
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from minitransformer.apps.learn.answers import is_open
from minitransformer.apps.learn.bank import FOOTER, Exercise, bank
from minitransformer.apps.learn.book import FOLDER, Book, find_folder
from minitransformer.apps.learn.language import VARIABLE, said, say_source
from minitransformer.files import reason

SWITCH = "MINITRANSFORMER_RECORD"
"""The environment variable that, set to 0, keeps notebooks from recording anything."""
CLONE = Path(__file__).parents[3]
FAILED = re.compile(r"\ALine \d+(?:, in \S+,)? ((?:failed with|is not Python:) .+)\n\n {4}(.+)")
"""What a verdict says of an error: its line is that of a file which is not kept."""


JUDGE = """
import json, pathlib, sys
from minitransformer.apps.learn import find, judge_in_child
verdict = judge_in_child(find(sys.argv[1]), pathlib.Path(sys.argv[2]))
print()
print(json.dumps([verdict.right, verdict.words]))
"""
REPLAY = """
import codeop, json, pathlib
run, names, done = codeop.Compile(), {"__name__": "__main__"}, []
for cell in json.loads(pathlib.Path("cells.json").read_text("utf-8")):
    for statement in cell:
        try:
            exec(run(statement + "\\n", "cell", "exec"), names)
        except BaseException:
            break  # as the notebook does
        done.append(statement)
print()
print(json.dumps(done))
"""
LONGEST = 30.0
"""How many seconds one of these processes may take; the check of a file stops earlier by itself."""
NOT_KEPT = re.compile(r"get_ipython\(\)|learn\.check$")
"""The functions whose calls have no place in a file."""
MAGICS = {"time", "capture", "prun"}
"""The magics of IPython that run Python code in the notebook itself."""


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
        except _NoCode as lost:
            book.finish(exercise)
            return said(f"(solved in {folder}; the code is not kept: {lost})")
        with book.changing():
            kept = None if is_open(exercise, path) else book.keep(path, text)
            book.write(exercise, text)
            book.finish(exercise)
    except OSError as error:
        return said(f"(not kept: {folder} cannot be written: {reason(error)})")
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
    cells = [[*_split(cell, shell.user_ns)] for cell in shell.history_manager.input_hist_parsed]
    statements = [one for cell in cells for one in cell]
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
    reasons, choices = [], (partial(_needed, statements, wanted), partial(_replay, cells))
    for choose in choices:
        text = "\n\n".join((f'"""{head}"""', _join(choose()), *renamed)) + "\n" + FOOTER
        right, words = _judge_elsewhere(exercise, text)
        if right:
            return text
        reasons.append(FAILED.sub(r"`\2` \1", words).splitlines()[0])
    raise _NoCode(f"by itself it is not right. {reasons[0]}")


def _judge_elsewhere(exercise: Exercise, text: str) -> tuple[bool, str]:
    """Judge the text of a file in a new process of Python."""
    with TemporaryDirectory() as place:
        file = Path(place, exercise.file)
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        try:
            right, words = _run_elsewhere(place, JUDGE, exercise.name, str(file))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return False, f"{type(error).__name__}: {error}"
        return right, words.replace(str(file), file.name)


def _replay(cells: Sequence[Sequence[_Statement]]) -> list[str]:
    """Run cells in a new process of Python; return the statements that raised no error, or none if it fails."""
    with TemporaryDirectory() as place, suppress(OSError, ValueError, subprocess.SubprocessError):
        texts = [[one.text for one in cell] for cell in cells]
        Path(place, "cells.json").write_text(json.dumps(texts), encoding="utf-8")
        found: list[str] = _run_elsewhere(place, REPLAY)
        return found
    return []


def _run_elsewhere(place: str, program: str, *words: str) -> Any:
    """Run a program in a new process of Python; return what its last line of JSON contains."""
    path = os.pathsep.join(filter(None, (str(CLONE), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", VARIABLE: "en"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=LONGEST,
    )
    return json.loads("".join(done.stdout.splitlines()[-1:]))  # its code may have ended it with os._exit(0)


@dataclass(frozen=True)
class _Statement:
    """A statement that a notebook has run, with the global names that it binds or changes, and that it uses."""

    text: str
    binds: frozenset[str]
    uses: frozenset[str]


def _split(cell: str, names: Mapping[str, Any]) -> Iterator[_Statement]:
    """Yield the statements of a cell that Python alone can run; ``names`` are those of the notebook."""
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # it has not run
    for node in tree.body:
        match node:
            case ast.Expr(ast.Call(ast.Attribute(), [ast.Constant(magic), *_, ast.Constant(str(inside))])) if (
                magic in MAGICS
            ):
                yield from _split(inside, names)
            case ast.Expr(ast.Call(function)) | ast.Assign(value=ast.Call(function)) if NOT_KEPT.search(
                ast.unparse(function)
            ):
                continue
            case _:
                text = _text_of(node, tree, cell)
                with suppress(SyntaxError, RecursionError):  # only a notebook runs it, such as await
                    compile(text, "cell", "exec", dont_inherit=True)
                    yield _describe(node, text, names)


def _text_of(node: ast.stmt, tree: ast.Module, cell: str) -> str:
    """Return the text of a statement: its whole lines, with their comments, if no other statement is on them."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    last = node.end_lineno or first
    if any(one is not node and one.lineno <= last and (one.end_lineno or 0) >= first for one in tree.body):
        return ast.get_source_segment(cell, node) or ""
    return "\n".join(cell.split("\n")[first - 1 : last])


def _describe(node: ast.stmt, text: str, names: Mapping[str, Any]) -> _Statement:
    table = symtable(text, "cell", "exec")
    changed = {one for part in _now(node) for one in _changed(part, names)}
    binds = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    if isinstance(node, ast.ImportFrom) and (node.names[0].name == "*" or node.module == "__future__"):
        binds = {"*"}  # whatever the others use
    return _Statement(text, frozenset(binds | changed), frozenset(_uses(table)) | changed)


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside it that run when it does: not what is inside functions."""
    waiting = [node]
    while waiting:
        yield (one := waiting.pop())
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(one)


def _changed(node: ast.AST, names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names whose values a node may change: it uses them too."""
    match node:
        case ast.AugAssign(ast.Name(name)):  # total += 1
            yield name
        case ast.Call(ast.Attribute() as function):  # table.append(1), but not np.exp(1)
            yield from (one for one in _root(function) if not isinstance(names.get(one), ModuleType))
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
    for one in table.get_symbols():
        if one.is_referenced() if top else one.is_global():  # `n += 1` alone is no reference to n
            yield one.get_name()
    for inside in table.get_children():
        yield from _uses(inside, top=False)


def _needed(statements: Sequence[_Statement], wanted: set[str]) -> list[str]:
    """Return the texts of the statements that bind names, and of all that these need, in order.

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
            found.append(one.text)
        last |= dict.fromkeys(one.binds, one.text)
    return found


def _join(statements: Sequence[str]) -> str:
    """Join statements, with those first that have to be; blank lines surround those of several lines."""
    texts = sorted(statements, key=lambda text: not text.startswith("from __future__ "))
    text = "".join(texts[:1])
    for before, after in pairwise(texts):
        text += ("\n\n\n" if "\n" in before + after else "\n") + after
    return text
