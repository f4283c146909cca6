"""The options of a configuration under their names on the command line, also in errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from minitransformer.apps.cli.errors import UsageError
from minitransformer.runs import Configuration

OPTIONS = {name: one for name, one in Configuration.declarations().items() if one.metadata.get("flag")}
"""The options of a configuration that are options of the command line."""


def flag_of(name: str) -> str:
    """Return an option as the command line writes it."""
    return f"--{name.replace('_', '-')}"


def with_flags(message: str, names: Iterable[str]) -> str:
    """Write options in a message as on the command line."""
    return re.sub(rf"\b({'|'.join(names)})\b", lambda match: flag_of(match[0]), message)


def describe(error: Exception, args: argparse.Namespace) -> str:
    """Return an error's message; options that were given on the command line are written as there."""
    names = OPTIONS.keys() & {*getattr(error, "names", ())}
    return with_flags(f"{error}", names) if any(hasattr(args, name) for name in names) else f"{error}"


@contextmanager
def refusing(
    args: argparse.Namespace, errors: type[Exception] | tuple[type[Exception], ...] = ValueError, before: str = ""
) -> Iterator[None]:
    """Turn errors inside a ``with`` block, by default ValueErrors, into UsageErrors; some words may come ``before``."""
    try:
        yield
    except errors as error:
        raise UsageError(before + describe(error, args)) from error
