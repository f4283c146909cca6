"""Tables, paragraphs and units of reports, which fit the terminal; in a file they have at most 100 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from minitransformer.console import columns
from minitransformer.files import read_toml

GAP = 2
"""The spaces between two columns."""


def table(
    rows: Sequence[Sequence[str]],
    align: str = "<>",
    names: int = 1,
    indent: str = "",
    over: Sequence[str] = (),
) -> str:
    """Return a table as text: each column is as wide as its widest cell.

    A table that is wider than the terminal is folded: its columns are in several blocks, each of which begins with the
    names of the rows.

    Parameters
    ----------
    rows : sequence of sequences of str
        The cells of each row, the headings first.
    align : str
        ``"<"`` for each column that is aligned on the left, ``">"`` on the right; the last one is for all that follow.
    names : int
        The number of columns with the names of the rows.
    indent : str
        What each line begins with.
    over : sequence of str, optional
        Headings over several columns, in a line above the others: each for the column where it begins, otherwise empty.
        Columns with a common heading stay together.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    begins = [i for i, heading in enumerate(over) if heading]
    for first, end in pairwise([*begins, len(widths)]):
        widths[end - 1] += max(0, len(over[first]) - sum(widths[first:end]) - GAP * (end - first - 1))
    starts = [*accumulate((width + GAP for width in widths[:-1]), initial=len(indent))]
    forms = [f"{side}{width}" for side, width in zip(align + align[-1] * len(widths), widths, strict=False)]
    lines = [indent + (" " * GAP).join(map(format, row, forms)) for row in rows]
    if over:
        lines.insert(0, "")
        for first in begins:
            lines[0] = lines[0].ljust(starts[first]) + over[first]
    return "\n".join(_fold(lines, [starts[i] for i in begins or range(names, len(widths))]))


def _fold(lines: Sequence[str], starts: Sequence[int]) -> list[str]:
    """Return the lines of a table in blocks that fit the terminal; columns after the names begin at these places."""
    first, end, width = starts[0], max(map(len, lines)), columns(sys.maxsize)
    cuts = [first]
    for start, stop in pairwise([*starts, end]):
        if first + stop - cuts[-1] > width and start > cuts[-1]:
            cuts.append(start)
    blocks = [[line[:first] + line[a:b] for line in lines] for a, b in pairwise([*cuts, end])]
    return [line.rstrip() for block in blocks for line in (*block, "")][:-1]


def wrap(words: str, indent: str = "") -> str:
    """Break words into lines."""
    return textwrap.fill(words, columns(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def paragraphs(source: str) -> Callable[..., str]:
    """Return a function that gives a paragraph of the TOML file beside a source file, by its name.

    The function fills in values for the names in braces, and breaks the lines: ``say("busy", indent="  ", load=1.5)``.
    """
    words: dict[str, str] = read_toml(Path(source).with_suffix(".toml"))

    def say(name: str, indent: str = "", **values: Any) -> str:
        return wrap(words[name].format(**words | values), indent)

    return say


def duration(seconds: float) -> str:
    """Write a short time: ``"41.2 ms"``, ``"1.53 s"``."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def memory(size: float | None) -> str:
    """Write bytes as MB, of a million bytes each; a dash where the system does not tell."""
    return "-" if size is None else f"{size / 1e6:,.0f} MB"


def between(mean: float, low: float, high: float, form: str = ".2f", ends: str | None = None) -> str:
    """Write a number with its range or its interval: ``"1.53 (1.48-1.60)"``, or ``"+1 (-1 to +3)"`` with signs."""
    ends = form if ends is None else ends
    return f"{mean:{form}} ({low:{ends}}{' to ' if '+' in ends else '-'}{high:{ends}})"
