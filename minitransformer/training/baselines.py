"""Baselines for models that continue texts: a compressor, a trigram model, and Python's own parser."""

from __future__ import annotations

import ast
import warnings
from itertools import islice

import numpy as np

from minitransformer.data import END, PAD, START, UNKNOWN, Tokeniser, Trigram
from minitransformer.decoding import SamplingOptions, draw, sample
from minitransformer.nn import LanguageModel
from minitransformer.training.scores import Share
from minitransformer.training.text_evaluation import UNKNOWN_BITS

SPECIAL = [PAD, START, END, UNKNOWN]
"""Tokens that are not characters."""
COMPLETIONS = (
    "{}", "{}\n pass", "{}\n pass\nfinally: pass", "{}\n case _: pass", "{}\ndef f(): pass", "if 0: pass\n{}",
    "if 0: pass\n{}\n pass", "try: pass\n{}", "try: pass\n{}\n pass", "match 0:\n {}", "match 0:\n {}\n  pass",
)  # fmt: skip
"""Programs in which a line can be correct although it is not a program by itself, such as ``else:``."""


def xz_bits(text: str, before: str = "") -> float:
    """Return the bits per character into which ``xz -9e`` compresses a text, headers included.

    Parameters
    ----------
    text : str
        The text, in UTF-8.
    before : str
        A text that is compressed before it, from which the compressor learns; its own bits do not count.
    """
    import lzma  # a browser's Python lacks it

    def size(data: str) -> int:
        return len(lzma.compress(data.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))

    return 8 * (size(before + text) - (size(before) if before else 0)) / len(text)


def trigram_bits(trigram: Trigram, tokeniser: Tokeniser, text: str) -> float:
    """Return the bits per character of a trigram model; unknown characters cost as much as in `evaluate_text`."""
    ids = np.array(tokeniser.encode(text))
    bits = -np.log2(trigram.probabilities(ids)).sum() + (ids == UNKNOWN).sum() * UNKNOWN_BITS
    return float(bits / len(text))


def write_texts(
    model: LanguageModel, tokeniser: Tokeniser, window: int, n: int, length: int, seed: int = 0
) -> list[str]:
    """Return n texts of ``length`` tokens that the model writes, drawn from its own probabilities."""
    rng = np.random.default_rng(seed)
    tokens = sample(model, np.zeros((n, 0), dtype=np.int64), window, SamplingOptions(), rng, forbidden=[UNKNOWN])
    written = np.stack(list(islice(tokens, length)), axis=1)
    return ["".join(tokeniser.stream([], row)) for row in written.tolist()]


def write_by_trigram(trigram: Trigram, tokeniser: Tokeniser, n: int, length: int, seed: int = 0) -> list[str]:
    """Return n texts of ``length`` tokens that a trigram model writes, drawn from its probabilities."""
    ids = np.zeros((n, 0), dtype=np.int64)
    for numbers in np.random.default_rng(seed).random((n, length)).T:
        p = trigram.next(ids[:, -2:])
        p[:, SPECIAL] = 0
        ids = np.column_stack((ids, draw(p / p.sum(axis=1, keepdims=True), numbers)))
    return ["".join(tokeniser.stream([], row)) for row in ids.tolist()]


def parsing_lines(texts: list[str]) -> Share:
    """Count the lines that Python's parser accepts.

    Each line is judged alone, without its indentation. Lines without code do not count: those that are empty or only a
    comment, and the first and the last of a text, which may be cut off. What a line by itself cannot have is added: the
    body ``pass`` of a block; ``if 0: pass`` before ``elif`` and ``else``, ``try: pass`` before ``except`` and
    ``finally``, ``finally: pass`` after ``try``; what belongs to ``match``, ``case`` and decorators. One line of a
    statement of several lines does not parse, so real programs stay below 100 %: measure those as well.
    """
    lines = [line.strip() for text in texts for line in text.split("\n")[1:-1]]
    lines = [line for line in lines if line and not line.startswith("#")]
    return Share(sum(map(_parses, lines)), len(lines))


def _parses(line: str) -> bool:
    """Return whether a line, completed in one of several ways, is Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that of an invalid escape sequence
        for completion in COMPLETIONS:
            try:
                ast.parse(completion.format(line))
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                continue
            return True
    return False
