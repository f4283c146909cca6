"""A parser of arguments with messages of one line, and the type of arguments that are paths."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from minitransformer.apps.cli.errors import one_line


class Parser(argparse.ArgumentParser):
    """A parser whose messages take one line, and suggest the word that was probably meant.

    An argument without a default that is not given is not in the namespace at all.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.color = False  # Python 3.14 would write escape sequences, which `protect_terminal` spells out

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument; switches have the defaults of argparse."""
        if "action" not in settings:
            settings.setdefault("default", argparse.SUPPRESS)
        return super().add_argument(*names, **settings)

    def error(self, message: str) -> NoReturn:
        """Print the usage and a message in one line, and end with status 2."""
        super().error(one_line(message))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices and (near := get_close_matches(str(value), choices, n=1)):
            raise argparse.ArgumentError(action, f"found {value!r}; did you mean {near[0]!r}?")
        super()._check_value(action, value)

    def refuse_dashes(self, arguments: Sequence[str]) -> None:
        """Refuse ``--option=--``: argparse mistakes the dashes for the end of the options, and fails."""
        for argument in takewhile(lambda argument: argument != "--", arguments):
            if match := re.fullmatch("(--[^=]+)=--", argument):
                self.error(f"argument {match[1]}: found --, expected a value")


def path(text: str) -> Path:
    """Return a path from the command line, whether or not something is there.

    Raises
    ------
    argparse.ArgumentTypeError
        If no file can have this name: it is empty, as an unset variable of a shell is, or too long.
    """
    if not text:
        raise argparse.ArgumentTypeError("found an empty text, expected a path")
    try:
        Path(text).lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be a path: {error}") from error
    return Path(text)
