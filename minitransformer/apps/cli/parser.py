"""The argument parser: reads ``arguments.toml``, checks paths and ranges, and reports errors in one line."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from minitransformer.apps.cli.errors import UsageError, one_line
from minitransformer.console import gather, spread


class Parser(argparse.ArgumentParser):
    """A parser whose messages take one line, and suggest the word that was probably meant.

    An argument without a default that is not given is not in the namespace at all.
    """

    def __init__(self, **options: Any) -> None:
        self.said: Callable[..., str] = lambda text, to="": text
        self.commands: Mapping[str, Parser] = {}
        super().__init__(**options)
        self.color = False  # Python 3.14 would write escape sequences, which `protect_terminal` spells out

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument; switches have the defaults of argparse."""
        if "action" not in settings:
            settings.setdefault("default", argparse.SUPPRESS)
        return super().add_argument(*names, **settings)

    def format_help(self) -> str:
        """Return the help, each text as ``said`` returns it."""
        titles = ((group, "title") for group in self._action_groups)
        for texts, name in [(self, "description"), *titles, *((action, "help") for action in self._actions)]:
            text = getattr(texts, name)
            if text and text is not argparse.SUPPRESS:  # argparse knows this text by its identity
                setattr(texts, name, spread(self.said(text.strip())))
        return gather(super().format_help()).replace("(default:", self.said("(default:"))

    def format_usage(self) -> str:
        """Return the usage, as ``said`` returns it."""
        return gather(super().format_usage())

    def _get_formatter(self) -> argparse.HelpFormatter:
        formatter, said = super()._get_formatter(), f"{spread(self.said('usage:'))} "
        add = formatter.add_usage  # indents the other lines of the usage by the width of its first word
        vars(formatter)["add_usage"] = lambda usage, actions, groups, prefix=said: add(usage, actions, groups, prefix)
        return formatter

    def error(self, message: str) -> NoReturn:
        """Print the usage and a message in one line, and end with status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {self.said('error')}: {one_line(self.said(message))}\n")

    def choose_language(self, arguments: Sequence[str]) -> None:
        """Say everything in the language that ``--lang`` names, also what is wrong before it."""
        if found := re.findall(r"^--lang[=\n](\w+)$", "\n".join(arguments), re.MULTILINE):
            self.said = partial(self.said, to=found[-1])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices and (near := get_close_matches(str(value), choices, n=1)):
            raise argparse.ArgumentError(action, f"found {value!r}; did you mean {near[0]!r}?")
        super()._check_value(action, value)

    def refuse_dashes(self, arguments: Sequence[str]) -> None:
        """Refuse what argparse mistakes: ``--option=--`` for the end of the options, ``--=5`` for every option."""
        for argument in takewhile(lambda argument: argument != "--", arguments):
            if argument.startswith("--="):
                self.error(f"unrecognized arguments: {argument}")
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


def time(text: str) -> datetime:
    """Return a time from the command line, which the system can count in seconds since 1970."""
    try:
        found = datetime.fromisoformat(text)
        found.timestamp()
        return found
    except (ValueError, OverflowError, OSError) as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a time such as 2026-11-30T23:59") from error


ARGUMENTS = tomllib.loads(Path(__file__).with_name("arguments.toml").read_text(encoding="utf-8"))
TYPES = {"int": int, "float": float, "path": path, "time": time}


def _listed(command: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arguments of a command in ``arguments.toml`` with their settings, in the order of the help."""
    for group in ARGUMENTS["commands"][command]:
        yield from ARGUMENTS[group].items()


def add_listed(
    parser: argparse.ArgumentParser, command: str, choices: Mapping[str, Iterable[str]], words: Mapping[str, object]
) -> None:
    """Add the arguments of a command that ``arguments.toml`` lists.

    Parameters
    ----------
    parser : ArgumentParser
        Where to add them.
    command : str
        The command.
    choices : mapping
        The values that arguments without a type may have, by the arguments' names without dashes.
    words : mapping
        What to fill in for the words in braces; ``choices`` stands for an argument's own choices.
    """
    for name, settings in _listed(command):
        given = {key: value for key, value in settings.items() if key not in ("least", "most")}
        if "type" in given:
            given["type"] = TYPES[given["type"]]
        elif name.lstrip("-") in choices:
            given["choices"] = tuple(choices[name.lstrip("-")])
        given["help"] = given["help"].format(**{**words, "choices": ", ".join(given.get("choices", ()))})
        parser.add_argument(name, **given)


def check_ranges(args: argparse.Namespace) -> None:
    """Raise a UsageError unless the numbers that a command was given are in the ranges of ``arguments.toml``."""
    for name, settings in _listed(args.command):
        given = getattr(args, name.lstrip("-").replace("-", "_"), []) if "least" in settings else []
        least, most = settings.get("least", 0), settings.get("most", inf)
        for value in given if isinstance(given, list) else [given]:
            if not least <= value <= most:
                words = f"at least {least}" if most == inf else f"from {least} to {most}"
                raise UsageError(f"{name} must be {words}, found {value}")
