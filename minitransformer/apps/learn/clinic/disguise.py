"""Write one training script differently for each patient, so that a comparison of two scripts shows no fault.

Names, the order of definitions and the seed vary with the number of the patient. What the examination calls, and
what a parameter is called, stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np

NAMES = {
    "draw_batch": ("draw_batch", "make_batch", "new_batch", "random_batch", "sample_batch"),
    "DecoderLayer": ("DecoderLayer", "DecoderBlock", "LayerOfDecoder", "WritingLayer"),
    "Model": ("Model", "Network", "Reverser", "Backwards", "SmallTransformer"),
    "learning_rate": ("learning_rate", "rate_at", "rate_of", "schedule"),
    "source_mask": ("source_mask", "memory_mask", "mask_of_source", "keys_seen", "read_mask"),
    "target_mask": ("target_mask", "own_mask", "mask_of_target", "written_seen"),
    "source": ("source", "given", "question", "encoder_ids"),
    "target": ("target", "reply", "written", "decoder_ids", "result"),
    "memory": ("memory", "encoded", "states", "read"),
    "logits": ("logits", "scores", "outputs", "next_scores", "z"),
    "weight": ("weight", "parameter", "w", "matrix"),
    "optimiser": ("optimiser", "adam", "optimizer", "updates"),
    "layer": ("layer", "block", "part", "one"),
    "rows": ("rows", "lines", "numbers", "examples"),
    "row": ("row", "line", "number", "example"),
    "ids": ("ids", "tokens", "indices", "words"),
}
"""What stands in the healthy script, and what may stand in its place."""
SEEDS = 3
"""The healthy script learns with seeds 1 to 3 (see ``visit.SCORE``); slightly smaller sizes need more steps."""


def disguise(text: str, number: int) -> str:
    """Return a script in the words, the order and the seed of a patient."""
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
