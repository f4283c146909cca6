"""What is wrong with a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["RunError", "writing"]


class RunError(RuntimeError):
    """A run folder is missing, incomplete or damaged, or is in the way."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name what cannot be written inside ``with writing(path):`` by a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {error.filename or path}: {error.strerror or error}") from error
