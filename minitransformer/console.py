"""Output streams: replaces what cannot be printed, shows control characters as text, wraps to the terminal's width."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TextIO
from unicodedata import east_asian_width

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, with those that begin an escape sequence; line breaks; controls of direction, which can make a
text look like another one; and halves of surrogate pairs."""
COLUMNS = 100
"""The longest lines of a report in a file."""
WIDTH = 78
"""The longest lines of a paragraph by `fill`."""
FILLER = "\ufeff"
"""Stands for the second column of a character; in text it means nothing."""
LABEL = re.compile(r" {0,3}(?:\S+ {2,})?")
"""What lines that continue a paragraph are indented by: ``"task      "``."""


def accept_all_characters(stream: TextIO, line_buffering: bool | None = None) -> None:
    """Let a stream accept every character, such as arrows and letters of any language.

    Files and pipes get UTF-8. A terminal keeps its encoding (cp1252 on many Windows machines) and shows ? for
    characters that it cannot show. A stream of another kind, such as that of a notebook, accepts them already.
    """
    if hasattr(stream, "reconfigure"):
        encoding = stream.encoding if stream.isatty() else "utf-8"
        stream.reconfigure(encoding=encoding, errors="replace", line_buffering=line_buffering)


def protect_terminal(stream: TextIO) -> None:
    r"""Spell out control characters that are written to a terminal; files and pipes get them unchanged.

    A stranger's model or file can hold escape sequences. A terminal would obey them: change its title or colours, hide
    text, or write into the clipboard.
    """
    if stream.isatty():
        write = stream.write
        vars(stream)["write"] = lambda text: write(spell_out(text, keep="\n\t"))


def columns(most: int = COLUMNS) -> int:
    """Return how long the lines of a report may be: at most so long, and as the terminal's if there is one."""
    return min(most, shutil.get_terminal_size().columns) if sys.stdout.isatty() else most


def fit_terminal(stream: TextIO) -> None:
    """Break lines that are written to a terminal between words; files and pipes get them whole."""
    if stream.isatty():
        write = stream.write
        vars(stream)["write"] = lambda text: write(break_lines(text, shutil.get_terminal_size().columns))


def break_lines(text: str, width: int) -> str:
    """Return a text with its paragraphs broken into lines.

    A paragraph is a line of words, perhaps after a label. Rows of tables, indented lines, which may be code, and what
    moves the cursor stay as they are.
    """
    lines = []
    for line in text.split("\n"):
        wide = spread(line)
        if (
            len(wide) <= width
            or line.startswith(4 * " ")
            or "\r" in line
            or len(re.findall(r"\S {3,}(?=\S)", line)) > 1
        ):
            lines.append(line)
        else:
            indent = " " * min(len(LABEL.match(wide)[0]), width // 2)  # type: ignore[index]
            lines += textwrap.wrap(
                wide, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return gather("\n".join(lines))


def spread(text: str) -> str:
    """Return a text that is as long as it is wide in a terminal, where characters of East Asia take two columns."""
    # the filler is in front, so that no cut leaves a character of which half is outside
    return "".join(FILLER * (east_asian_width(one) in "FW") + one for one in text)


def gather(text: str) -> str:
    """Return a text without the fillers that `spread` has added."""
    return text.replace(FILLER, "")


def spell_out(text: str, keep: str = "") -> str:
    r"""Return a text in which control characters are written as in Python: ``\x1b``, ``\n``.

    Parameters
    ----------
    text : str
        Any text.
    keep : str
        Characters that stay as they are.
    """
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def fill(text: str, first: str = "", rest: str = "") -> str:
    """Return a paragraph in lines of at most 78 columns, the first and the rest indented; no word is broken."""
    wrapper = textwrap.TextWrapper(WIDTH, spread(first), rest, break_long_words=False, break_on_hyphens=False)
    return gather(wrapper.fill(spread(text)))


def mismatch(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """Return which names are missing and which are unknown, in words."""
    found = {"missing": sorted(missing), "unknown": sorted(unknown)}
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)


def counted(number: int, nouns: str) -> str:
    """Return how many there are of something, given by a plural that only adds an s: ``1 step``, ``1,000 steps``."""
    return f"{number:,} {nouns.removesuffix('s') if number == 1 else nouns}"
