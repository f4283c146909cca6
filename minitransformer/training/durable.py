"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["PARTIAL", "flush_to_disk", "write_durably"]

PARTIAL = ".partial"
"""What the name of a file ends with while it is being written."""


def write_durably(path: Path, data: bytes) -> None:
    """Write a file aside, flush it to the disk, put it in its place, and flush the folder, which holds its name.

    A power cut at any moment leaves the whole new file or the whole old one.

    Parameters
    ----------
    path : Path
        The file; one that is there already is replaced.
    data : bytes
        What is to be in it.

    Raises
    ------
    OSError
        If it cannot be written, as when the disk is full; what was there before is still there.
    """
    aside = path.with_name(path.name + PARTIAL)
    try:
        with aside.open("wb") as file:
            file.write(data)
            flush_to_disk(file.fileno())
        aside.replace(path)
        _flush_folder(path.parent)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def flush_to_disk(number: int) -> None:
    """Wait until what was written to an open file lies on the disk."""
    os.fsync(number)


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows opens no folders
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
