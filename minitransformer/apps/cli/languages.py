"""Translates the help, the argument errors and the output of the commands for learners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.parser import Parser
from minitransformer.apps.learn.language import language, said, speaking
from minitransformer.files import FileError


def add_language(parser: Parser) -> None:
    """Translate what a parser says; an unknown language in the environment is refused."""
    try:
        language()
    except ValueError as error:
        parser.error(f"{error}")
    parser.said = said


@contextmanager
def refusing_in(name: str) -> Iterator[None]:
    """Set the language of a ``with`` block, also of the messages of its errors; an empty name changes nothing."""
    with speaking(name):
        try:
            yield
        except (UsageError, FileError) as error:
            raise UsageError(said(f"{error}")) from error
