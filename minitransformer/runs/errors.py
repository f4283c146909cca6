"""The errors of run folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from minitransformer.files import reason

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class RunError(RuntimeError):
    """A run folder is missing, incomplete or damaged, or already exists."""


@contextmanager
def refusing(errors: Errors, before: str = "", after: str = "") -> Iterator[None]:
    """Turn errors inside a ``with`` block into RunErrors, whose messages have some words before and after."""
    try:
        yield
    except errors as error:
        raise RunError(f"{before}{error}{after}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError inside ``with writing(path):`` into a RunError that names the path."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {error.filename or path}: {reason(error)}") from error
