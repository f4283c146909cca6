"""Errors of the command line, and their messages."""

from __future__ import annotations

import sys

from minitransformer.console import spell_out

LONGEST = 1000
"""Longer messages, in characters, are cut in the middle."""


class UsageError(Exception):
    """A command cannot do what its arguments ask for; the message says why, and what to do."""


def one_line(message: object) -> str:
    r"""Return a message in one line, whatever names and values it quotes: a line break in them becomes ``\n``."""
    text = f"{message}"
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return spell_out(text)


def note(message: str) -> None:
    """Print a note to standard error."""
    print(f"note: {one_line(message)}", file=sys.stderr, flush=True)
