"""Write one training script differently for each broken script, so that comparing two scripts shows no fault.

Names, the order of definitions and the seed vary with the number of the broken script. What the examination calls, and
what a parameter is called, stays.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

NAMES: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
"""What stands in the healthy script, and what may stand in its place."""
SEEDS = 3
"""The healthy script learns with seeds 1 to 3 (see ``visit.SCORE``); slightly smaller sizes need more steps."""


def disguise(text: str, number: int) -> str:
    """Return a script in the words, the order and the seed of a broken script."""
    rng = np.random.default_rng(number)
    tree, lines = ast.parse(text), text.splitlines()
    constants: list[str] = []
    definitions: list[str] = []
    others: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions.append(_shuffle_methods(node, lines, rng))
        elif isinstance(node, ast.Assign):
            constants += _constants(node, text, lines)
        else:
            others.append(_lines(node, lines))
    head, *imports, main = others
    parts = [f"{head}\n\n{imports[0]}\n\n" + "\n".join(imports[1:]) + "\n\n" + "\n".join(rng.permutation(constants))]
    text = "\n\n\n".join([*parts, *rng.permutation(definitions), main]) + "\n"
    for name, words in NAMES.items():
        text = re.sub(rf"(?<![.\w]){name}\b", words[rng.integers(len(words))], text)
    return text.replace("SEED = 1", f"SEED = {1 + number % SEEDS}")


def _lines(node: ast.stmt, lines: Sequence[str]) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def _constants(node: ast.Assign, text: str, lines: Sequence[str]) -> list[str]:
    """Return one line for each name."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return [
                f"{ast.unparse(name)} = {ast.get_source_segment(text, value)}"
                for name, value in zip(names, values, strict=True)
            ]
    return [_lines(node, lines)]


def _shuffle_methods(node: ast.FunctionDef | ast.ClassDef, lines: Sequence[str], rng: np.random.Generator) -> str:
    """Return a definition; of a class, with its methods in another order."""
    if isinstance(node, ast.FunctionDef):
        return _lines(node, lines)
    methods = rng.permutation([_lines(one, lines) for one in node.body])
    return "\n".join([lines[node.lineno - 1], "\n\n".join(methods)])
