"""One file of a learner's own functions that trains a Transformer by itself, without this package.

Each file of the learner's becomes a module of its own in it, as it was written: no name of one file can be that of
another. The function that its exercise asks for gets the name of the exercise. ``exercises/whole.py`` joins them.
"""

from __future__ import annotations

import ast
import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minitransformer.apps.learn.bank import FOOTER, SOURCES, Exercise, bank
from minitransformer.apps.learn.child import Ended, Limits, run_in_child

GLUE = SOURCES / "whole.py"
FILE = "my_transformer.py"
HEAD = f'''"""A Transformer of my own: `python {FILE}` checks its gradients and trains it. It needs PACKAGES.

The functions above the line of = signs are mine. Each has the name of the exercise that asked for it, and each is in a
module of its own, so that names in different files cannot collide.
"""

import sys
import types

import numpy as np


def mine(exercise, name, source):
    """Run a file of mine as a module of its own; return its function."""
    module = sys.modules[exercise] = types.ModuleType(exercise)
    module.__file__ = mine.__code__.co_filename
    above = sys._getframe(1).f_lineno - 1  # so that error messages show the lines of this file
    exec(compile("\\n" * above + source, module.__file__, "exec"), vars(module))
    return getattr(module, name)
'''
LIMITS = Limits(patience=20.0, seconds=60.0)
"""Of the file's own check, which takes less than a second."""


def parts_needed() -> list[Exercise]:
    """Return the exercises whose functions the glue calls, in order."""
    called = {node.id for node in ast.walk(ast.parse(_glue())) if isinstance(node, ast.Name)}
    return [exercise for exercise in bank() if _name(exercise) in called]


def packages_needed(folder: Path) -> str:
    """Return what has to be installed for a learner's functions: "NumPy alone", or "NumPy and" the names of others."""
    others = set[str]()
    for exercise in parts_needed():
        with suppress(RecursionError):  # of an expression of thousands of terms
            for node in ast.walk(ast.parse(_code(folder, exercise)[0])):
                match node:
                    case ast.Import(names):
                        others |= {one.name.partition(".")[0] for one in names}
                    case ast.ImportFrom(str(module), level=0):
                        others.add(module.partition(".")[0])
    others -= {"numpy", *sys.stdlib_module_names}
    return f"NumPy and {', '.join(sorted(others))}" if others else "NumPy alone"


def assemble(folder: Path) -> str:
    """Return the text of the file, with a learner's functions, all of which are solved."""
    head = HEAD.replace("PACKAGES", packages_needed(folder))
    return "\n\n".join((head, *(_part(folder, exercise) for exercise in parts_needed()), _glue()))


def check_assembled(text: str, path: Path) -> None:
    """Run the file's own check before the file is written, in a process of its own.

    Raises
    ------
    Ended
        If it fails; the message says why.
    """
    with TemporaryDirectory() as place:
        file = Path(place, path.name)  # the learner's code may read its own file
        file.write_bytes(text.encode())
        for _ in run_in_child(partial(_check, file, path.parent), [file], LIMITS, tell=lambda words: None):
            pass


def _check(file: Path, folder: Path) -> Iterator[bool]:
    text = file.read_bytes().decode()
    names: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(text, str(file), "exec", dont_inherit=True), names)
            names["check"]()
    except BaseException as error:  # whatever the learner's code raises, such as sys.exit()
        words = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise Ended(f"{_find_place(error, text, folder)}{words}") from error
    yield True


def _find_place(error: BaseException, text: str, folder: Path) -> str:
    """Return the file and the line of the learner's that an error comes from; nothing if it is the glue's."""
    exercises = {exercise.name: exercise for exercise in parts_needed()}
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if exercise := exercises.get(frame.f_globals.get("__name__", "")):
            above = text[: text.index(f"\n{_name(exercise)} = mine(")].count("\n") + 2
            line += _code(folder, exercise)[1] - above
            return f"{folder / exercise.file}, line {line}, in {frame.f_code.co_name}, failed with "
    return ""


def _glue() -> str:
    return GLUE.read_text(encoding="utf-8")


def _name(exercise: Exercise) -> str:
    return exercise.name.replace("-", "_")


def _code(folder: Path, exercise: Exercise) -> tuple[str, int]:
    """Return an exercise's file without the text of the exercise, and how many of its lines are above that."""
    whole = (folder / exercise.file).read_text(encoding="utf-8-sig")
    own = whole.replace(footer := FOOTER.strip(), "\n" * footer.count("\n"))  # all other lines keep their numbers
    text = own.strip("\n") + "\n"
    with suppress(RecursionError):  # of an expression of thousands of terms
        head, *rest = ast.parse(text).body
        match head:
            case ast.Expr(ast.Constant(str()), end_lineno=int(end)) if (
                rest and rest[0].lineno > end and "__doc__" not in text
            ):
                text = "\n".join(text.split("\n")[end:]).lstrip("\n")
    return text, own[: own.find(text.rstrip("\n"))].count("\n")


def _part(folder: Path, exercise: Exercise) -> str:
    """Return the code that makes a module of an exercise's file."""
    text, _ = _code(folder, exercise)
    [asked] = exercise.asks_for
    quotes = next((marks for marks in ("'''", '"""') if marks not in text), "")
    source = f"r{quotes}\n{text}{quotes}" if quotes else repr(f"\n{text}")
    return f'{_name(exercise)} = mine("{exercise.name}", "{asked}", {source})\n'
