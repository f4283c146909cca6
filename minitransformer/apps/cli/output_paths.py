"""Output paths that the user names, checked before any work starts.

Links, devices and pipes are written through. A file is replaced only when the new one is complete, and keeps its owner
and permissions. A file that cannot be replaced, because it has hard links or is a mount point, is written in place.
Inside run folders and learners' folders, a link is replaced instead; see ``minitransformer/durable.py``.
"""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from minitransformer.apps.cli.errors import UsageError
from minitransformer.durable import check_replaceable, write_whole
from minitransformer.files import reason

PICTURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")
IN_PLACE = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV}
"""Error numbers of files that cannot be replaced, but perhaps be written: they or their owners are somebody else's."""


def check_writable(
    args: argparse.Namespace, *names: str, endings: tuple[str, ...] = PICTURES, follow: bool = True
) -> None:
    """Raise a UsageError unless the files of these options, where they are given, can be written; contents stay.

    Every option but ``json`` and ``save``, which names an HTML file, has one of the endings, if there are any. Unless
    it is to ``follow`` them, a link at the path is replaced.
    """
    for name in names:
        if not hasattr(args, name):
            continue
        path: Path = getattr(args, name)
        wanted = {"json": (), "save": PAGES}.get(name, endings)
        if wanted and path.suffix.lower() not in wanted:
            raise UsageError(f"--{name} writes {', '.join(wanted)}, found {path}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not follow or not (is_stream(path) or path.is_file()):
                check_replaceable(path.resolve() if follow else path)
            elif not os.access(path, os.W_OK):  # opening a pipe would end it
                raise PermissionError(0, "no permission to write to it")
        except OSError as error:
            raise UsageError(f"--{name}: {path} cannot be written: {reason(error)}; choose another path") from error


def is_stream(path: Path) -> bool:
    """Return whether a path leads to something that can be written only once: a device, a pipe, this program's output.

    Raises
    ------
    OSError
        If it leads to a disk or a socket.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if stat.S_ISBLK(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        raise OSError(0, "it is neither a file nor a pipe")
    if stat.S_ISREG(found.st_mode):  # an open file may have no name any more
        return _own_output(found) is not None or not path.resolve().exists()
    return not stat.S_ISDIR(found.st_mode)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield where to write a file that the user named; its contents are put in place at the end."""
    with TemporaryDirectory() as folder:
        file = Path(folder, path.name)  # the ending chooses the format
        yield file
        write_output(path, file.read_bytes())


def write_output(path: Path, data: bytes) -> None:
    """Write a file that the user named; what exists at the path stays what it is, and gets these contents."""
    if not is_stream(path):
        found = path.stat() if path.exists() else None
        try:
            if found is None or found.st_nlink == 1:
                write_whole(path.resolve(), data, like=found)
                return
        except OSError as error:
            if found is None or error.errno not in IN_PLACE:
                raise
    sys.stdout.flush()
    number = _own_output(path.stat())
    try:
        with open(path if number is None else os.dup(number), "wb") as stream:
            stream.write(data)
    except BrokenPipeError:
        raise  # the reader has ended
    except OSError as error:
        raise OSError(error.errno, reason(error), f"{path}") from error


def _own_output(found: os.stat_result) -> int | None:
    """Return the number of this program's output that goes to a regular file, if it is this one."""
    for number in (1, 2):
        try:
            if stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.fstat(number)):
                return number
        except OSError:  # it is closed
            continue
    return None
