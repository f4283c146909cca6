"""One file of a learner's own functions that trains a Transformer by itself, without this package.

Each file of the learner's becomes a module of its own in it, as it was written: no name of one file can be that of
another. The function that its exercise asks for gets the name of the exercise. ``exercises/whole.py`` joins them.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from minitransformer.apps.learn.bank import FOOTER, SOURCES, Exercise, bank
from minitransformer.apps.learn.child import Ended, Limits, run_in_child

GLUE = SOURCES / "whole.py"
FILE = "my_transformer.py"
HEAD = f'''"""A Transformer of my own: `python {FILE}` checks its gradients and trains it. It needs NumPy alone.

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
    return [exercise for exercise in bank() if exercise.name.replace("-", "_") in called]


def assemble(folder: Path) -> str:
    """Return the text of the file, with a learner's functions, all of which are solved."""
    return "\n\n".join((HEAD, *(_part(folder, exercise) for exercise in parts_needed()), _glue()))


def check_assembled(text: str, path: Path) -> None:
    """Run the file's own check, in a process of its own.

    Raises
    ------
    Ended
        If it fails; the message says why.
    """
    for _ in run_in_child(partial(_check, text, path), [path], LIMITS, tell=lambda words: None):
        pass


def _check(text: str, path: Path) -> Iterator[bool]:
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(text, str(path), "exec", dont_inherit=True), names)
            names["check"]()
    except BaseException as error:  # whatever the learner's code raises, such as sys.exit()
        raise Ended(f"{type(error).__name__}: {error}") from error
    yield True


def _glue() -> str:
    return GLUE.read_text(encoding="utf-8")


def _part(folder: Path, exercise: Exercise) -> str:
    """Return the code that makes a module of an exercise's file, without the text of the exercise."""
    text = (folder / exercise.file).read_text(encoding="utf-8-sig").replace(FOOTER.strip(), "").strip("\n") + "\n"
    with suppress(RecursionError):  # of an expression of thousands of terms
        head, *rest = ast.parse(text).body
        if isinstance(head, ast.Expr) and rest and rest[0].lineno > (end := head.end_lineno or 0):
            text = "\n".join(text.split("\n")[end:]).lstrip("\n")
    [asked], name = exercise.asks_for, exercise.name.replace("-", "_")
    quotes = next((marks for marks in ("'''", '"""') if marks not in text), "")
    source = f"r{quotes}\n{text}{quotes}" if quotes else repr(text)
    return f'{name} = mine("{exercise.name}", "{asked}", {source})\n'
