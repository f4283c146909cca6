"""Errors of the command line, and their messages."""

from __future__ import annotations

import unicodedata

__all__ = ["UsageError", "one_line", "visible"]

LONGEST = 1000
"""Longer messages, in characters, are cut in the middle."""


class UsageError(Exception):
    """A command cannot do what its arguments ask for; the message says why, and what to do."""


def one_line(message: object) -> str:
    r"""Return a message in one line, whatever names and values it quotes: a line break in them becomes ``\n``."""
    text = f"{message}"
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return visible(text, but="")


def visible(text: str, but: str = "\n\t") -> str:
    r"""Return a text in which characters that steer a terminal are written as Python does, such as ``\x1b``.

    Parameters
    ----------
    text : str
        Any text, such as that of a model from a stranger.
    but : str
        The characters among them that stay as they are.
    """
    hidden = ("Cc", "Cs", "Zl", "Zp")
    return "".join(
        repr(letter)[1:-1] if unicodedata.category(letter) in hidden and letter not in but else letter
        for letter in text
    )
