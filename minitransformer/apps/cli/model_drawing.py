"""The model drawn in the terminal: encoder and decoder as stacks of sub-layers side by side, each with its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from minitransformer.apps.learn.model import Box, Row

INNER = 37
"""The width of a box without its borders: a mark, the longest name and a note of up to five letters."""
MARKS = {"yours": "x", "wrong": "!", "engine": "."}
MEMORY = ["The encoder's output becomes keys and", "values in every cross-attention."]
ASCII = str.maketrans("─│┌┐├┤└┘×", "-|++++++x")


def draw_model(stacks: Mapping[str, Sequence[Box]], width: int, encoding: str | None) -> str:
    """Return the drawing of a model.

    Parameters
    ----------
    stacks : mapping of str to sequence of Box
        The encoder if there is one, the decoder, training and decoding.
    width : int
        The columns of the terminal. If two stacks do not fit side by side, they are one below the other.
    encoding : str or None
        The encoding of the output. If it lacks the letters that make boxes, the drawing is in ASCII.
    """
    wide, lines = width > 2 * (INNER + 2), []
    names = [*stacks]
    for pair in zip_longest(names[::2], names[1::2]):
        both = [_draw_stack(name, stacks[name]) for name in pair if name]
        if wide:
            rows = zip_longest(*both, fillvalue="")
            lines += [" ".join(f"{line:<{INNER + 2}}" for line in row).rstrip() for row in rows]
        else:
            lines += [line.rstrip() for stack in both for line in stack]
    text = "\n".join(lines)
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(ASCII)
    return text


def _draw_stack(name: str, boxes: Sequence[Box]) -> list[str]:
    """Return the lines of one stack: its boxes share their borders."""
    lines, corners = [f" {name.upper()}"], "┌┐"
    for box in boxes:
        title, layers = f" {box.title} ", " N × ─" if box.layered else ""
        lines.append(f"{corners[0]}─{title}{layers:─>{INNER - 1 - len(title)}}{corners[1]}")
        lines += [f"│{_draw_row(row):<{INNER}}│" for row in box.rows]
        corners = "├┤"
    lines.append(f"└{'─' * INNER}┘")
    return [*lines, *(f" {line}" for line in MEMORY), ""] if name == "encoder" else [*lines, ""]


def _draw_row(row: Row) -> str:
    if not row.owner:
        return f"   {row.text}"
    return f" {MARKS[row.owner]} {row.text:<28}{row.note:>5}"
