"""The errors of run folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minitransformer.files import reason


class RunError(RuntimeError):
    """A run folder is missing, incomplete or damaged, or already exists."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError inside ``with writing(path):`` into a RunError that names the path."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {error.filename or path}: {reason(error)}") from error
