"""One file of a learner's own functions that trains a Transformer by itself, without this package.

Each function gets the name of its exercise; what else a file defines gets it in front.
``exercises/whole.py`` joins them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from minitransformer.apps.learn.bank import FOOTER, SOURCES, Exercise, bank

GLUE = SOURCES / "whole.py"
FILE = "my_transformer.py"
HEAD = f'''"""A Transformer of my own: `python {FILE}` checks its gradients and trains it. It needs NumPy alone.

The functions above the line of = signs are mine. Each has the name of the exercise that asked for it.
"""
'''


def parts_needed() -> list[Exercise]:
    """Return the exercises whose functions the glue calls, in order."""
    called = {node.id for node in ast.walk(ast.parse(_glue())) if isinstance(node, ast.Name)}
    return [exercise for exercise in bank() if exercise.name.replace("-", "_") in called]


def assemble(folder: Path) -> str:
    """Return the text of the file, with a learner's functions, all of which are solved."""
    imports: dict[str, None] = {}
    pieces = []
    for exercise in parts_needed():
        text = (folder / exercise.file).read_text(encoding="utf-8-sig")
        pieces.append(_rename(exercise, text.replace(FOOTER.strip(), ""), imports))
    return HEAD + "\n\n" + "\n".join(imports) + "\n\n\n" + "\n\n\n".join((*pieces, _glue()))


def _glue() -> str:
    return GLUE.read_text(encoding="utf-8")


def _rename(exercise: Exercise, text: str, imports: dict[str, None]) -> str:
    """Return the definitions of a file under names that no other exercise has; its imports are collected."""
    tree, lines = ast.parse(text), text.splitlines()
    [asked] = exercise.asks_for
    ours = exercise.name.replace("-", "_")
    names = {name: ours if name == asked else f"{ours}_{name.lstrip('_')}" for name in _defined(tree)}
    places: dict[int, dict[int, str]] = {}
    for node in ast.walk(tree):
        old = getattr(node, "id", getattr(node, "arg" if isinstance(node, ast.arg) else "name", None))
        if old in names and isinstance(node, ast.stmt | ast.expr | ast.arg):
            line = node.lineno - 1
            at = len(lines[line].encode()[: node.col_offset].decode())
            places.setdefault(line, {})[lines[line].index(old, at)] = old
    for line, found in places.items():
        for at in sorted(found, reverse=True):
            lines[line] = lines[line][:at] + names[found[at]] + lines[line][at + len(found[at]) :]
    kept = []
    for i, node in enumerate(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports[ast.unparse(node)] = None
        elif i or not isinstance(node, ast.Expr):  # not the text of the exercise
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            kept.append("\n".join(lines[first - 1 : node.end_lineno]))
    return re.sub(r"\n{4,}", "\n\n\n", "\n\n\n".join(kept))


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module defines, imports left out."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found
