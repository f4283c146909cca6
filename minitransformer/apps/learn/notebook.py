"""Keep what is solved in a notebook in the learner's folder, and find there what is solved.

The file of an exercise is written from the notebook's function and from what it uses: imports, other functions of the
notebook, and numbers or texts. It counts only if the check accepts the file by itself.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

from minitransformer.apps.learn.answers import is_open
from minitransformer.apps.learn.bank import FOOTER, Exercise, bank
from minitransformer.apps.learn.book import FOLDER, Book, find_folder
from minitransformer.apps.learn.language import said, say_source
from minitransformer.apps.learn.referee import judge_file

SWITCH = "MINITRANSFORMER_RECORD"
"""The environment variable that, set to 0, keeps notebooks from recording anything."""
CLONE = Path(__file__).parents[3]


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
    imports: dict[str, None] = {}
    pieces: dict[str, None] = {}
    for asked, answer in zip(exercise.asks_for, answers, strict=True):
        name = _collect(answer, imports, pieces)
        if name != asked:
            pieces[f"{asked} = {name}"] = None
    head = ast.get_docstring(ast.parse(say_source(exercise.text)), clean=False)
    text = "\n\n\n".join((f'"""{head}"""\n\n' + "\n".join(imports), *pieces)) + "\n" + FOOTER
    with TemporaryDirectory() as place:
        path = Path(place) / exercise.file
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        verdict = judge_file(exercise, path)
    if not verdict.right:
        raise _NoCode(f"by itself it is not right. {verdict.words.splitlines()[0]}")
    return text


def _collect(value: Any, imports: dict[str, None], pieces: dict[str, None]) -> str:
    """Collect the source of a function and of what it uses, in order; return the name that the source defines."""
    if not isinstance(value, FunctionType):
        raise _NoCode(f"{type(value).__name__} is no function of this notebook")
    name, text = _source(value)
    pieces[text] = None  # two functions may call each other
    for used in sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - {name}):
        one = value.__globals__.get(used, builtins)  # a name of Python itself, or a local one
        if isinstance(one, ModuleType) and one is not builtins:
            imports[f"import {one.__name__}" + (f" as {used}" if used != one.__name__ else "")] = None
        elif isinstance(one, FunctionType) and one.__module__ == value.__module__:
            if all(_source(one)[1] != text for text in pieces):
                _collect(one, imports, pieces)
        elif isinstance(one, bool | int | float | str | tuple):
            pieces[f"{used} = {one!r}"] = None
        elif home := (getattr(one, "__module__", None) or type(one).__module__) if callable(one) else None:
            imports[f"from {home} import {one.__name__}" + (f" as {used}" if used != one.__name__ else "")] = None
    del pieces[text]
    pieces[text] = None  # after what it uses
    return name


def _source(function: FunctionType) -> tuple[str, str]:
    """Return the statement of a cell that defines a function, after the name that it binds."""
    code = function.__code__
    try:
        lines = linecache.getlines(code.co_filename) or inspect.getsourcelines(function)[0]
        for statement in ast.parse("".join(lines)).body:
            first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
            if first <= code.co_firstlineno <= (statement.end_lineno or 0):
                text = textwrap.dedent("".join(lines[first - 1 : statement.end_lineno])).rstrip()
                match statement:
                    case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                        return name, text
    except (OSError, SyntaxError):
        pass
    raise _NoCode(f"the source of {function.__name__} is not known")
