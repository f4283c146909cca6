"""Atomic writes that do not follow symbolic links, on Linux, macOS and Windows.

A file is written under a fresh name in the same folder and then renamed. So a kill leaves either the old file or the
new one, and a symbolic link at its path is replaced: the link's target stays unchanged. Folders that the program makes
inside the user's folder must not be links; the path to the user's folder may contain links.

What differs by system: Windows neither opens folders nor replaces or removes a file that a process has open, and the
fsync of macOS does not wait for the disk.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from minitransformer.files import reason

PARTIAL = ".partial"
"""The suffix of a file that is being written."""

_PARTIAL_NAME = re.compile(r"(\.[0-9a-f]{16}|.+\.(json|jsonl|tsv|safetensors))\.partial")
"""Names of files that were being written; the second alternative is that of earlier versions."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if sys.platform == "win32" else ()
"""Seconds between attempts to replace or remove a file that another process may have open."""
_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EBADF}
"""Error numbers of file systems that cannot flush a folder."""


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file: a power cut at any moment leaves either the new or the old file intact.

    Parameters
    ----------
    path : Path
        The file; an existing one is replaced, and so is a symbolic link.
    data : bytes
        Its contents.

    Raises
    ------
    OSError
        If it cannot be written, as when the disk is full; the old file is kept.
    """
    _write(path, data, flush=True)


def write_whole(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """Replace a file as `write_durably` does, without waiting for the disk: safe from a kill, not from a power cut.

    The new file has the owner and the permissions of ``like``, if that is given.
    """
    _write(path, data, flush=False, like=like)


def create(path: Path, data: bytes, flush: bool = True, like: os.stat_result | None = None) -> None:
    """Write a new file, with the owner and the permissions of ``like`` if that is given.

    Raises
    ------
    OSError
        If it cannot be written, or the path exists, even as a broken link.
    """
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600 if like else 0o666)
    try:
        if like and hasattr(os, "fchown"):  # not on Windows
            os.fchown(number, like.st_uid, like.st_gid)
            os.fchmod(number, stat.S_IMODE(like.st_mode))
        _write_all(number, data)
        if flush:
            flush_to_disk(number)
    finally:
        os.close(number)


def put_in_place(aside: Path, path: Path) -> None:
    """Rename a file that is on the disk, and flush its folder."""
    replace(aside, path)
    flush_folder(path.parent)


def replace(old: Path, new: Path) -> None:
    """Rename a file or a folder, over an existing file too; on Windows, wait while another process reads that file."""
    _insist(lambda: os.replace(old, new))


def remove(path: Path) -> None:
    """Remove a file, unless it is missing; on Windows, wait while another process reads it."""
    _insist(lambda: path.unlink(missing_ok=True))


def append(path: Path, data: bytes) -> None:
    """Write to the end of a file, and create it if it is missing.

    Raises
    ------
    OSError
        If it cannot be written, or it is a symbolic link or a pipe.
    """
    number = _open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        _write_all(number, data)
    finally:
        os.close(number)


def flush_file(path: Path) -> None:
    """Wait until a file's contents are on the disk; a missing file is skipped."""
    if not path.exists():
        return
    number = _open_file(path, os.O_WRONLY | os.O_APPEND)
    try:
        flush_to_disk(number)
    finally:
        os.close(number)
    flush_folder(path.parent)


def flush_to_disk(number: int) -> None:
    """Wait until an open file's contents are on the disk."""
    if sys.platform == "darwin":
        fcntl = import_module("fcntl")
        with suppress(OSError):  # some file systems have no such call
            fcntl.fcntl(number, fcntl.F_FULLFSYNC)
            return
    os.fsync(number)


def flush_folder(folder: Path) -> None:
    """Wait until a folder's entries are on the disk, if the file system supports it."""
    if sys.platform == "win32":
        return
    try:
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


@contextmanager
def lock_of(path: Path, seconds: float = 10.0, nested: bool = True) -> Iterator[None]:
    """Hold the lock of a file: ``with lock_of(path):`` around code that reads the file, changes it and writes it again.

    The lock is another file in the same folder. The system releases the lock when the process ends.

    Parameters
    ----------
    path : Path
        The file.
    seconds : float
        How long to wait for another process.
    nested : bool
        Whether the process that holds it may hold it again inside the block.

    Raises
    ------
    TimeoutError
        If another process holds the lock for longer.
    """
    from filelock import FileLock  # takes 20 ms

    lock = FileLock(f"{path.absolute()}.lock", seconds, is_singleton=nested)
    try:
        lock.acquire()
    except TimeoutError as error:
        words = "another process has locked it; try again when that process has ended"
        raise TimeoutError(errno.ETIMEDOUT, words, f"{path}") from error
    try:
        yield
    finally:
        lock.release()


def make_folder(path: Path) -> None:
    """Make a folder inside the user's folder, unless it exists.

    Raises
    ------
    OSError
        If it cannot be made, or its path is a link or a file.
    """
    with suppress(FileExistsError):
        path.mkdir()
        flush_folder(path.parent)
    check_folder(path)


def is_partial(path: Path) -> bool:
    """Return whether a file was left unfinished by a killed process, judged by its name."""
    return _PARTIAL_NAME.fullmatch(path.name) is not None


def remove_partial(folder: Path, but: str = "") -> None:
    """Remove the unfinished files of killed processes from a folder, except one name."""
    if folder.is_dir():
        for path in folder.iterdir():
            if is_partial(path) and path.name != but:
                remove(path)


def check_folder(path: Path) -> None:
    """Refuse a symbolic link or a file in place of a folder: files written through a link would land elsewhere.

    Raises
    ------
    OSError
        If it is one of these; a missing folder is accepted.
    """
    if path.is_symlink():
        raise _link_error(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{path}")


def check_makeable(path: Path) -> None:
    """Check that a path leads to a folder, through links too, or that a folder can be made there; change nothing.

    Raises
    ------
    OSError
        If it leads to a file, or a link on it leads nowhere.
    """
    nearest = next((one for one in (path, *path.parents) if os.path.lexists(one)), path)
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder; choose another path", f"{nearest}")


def check_replaceable(path: Path) -> None:
    """Check that `write_whole` could write a file, and change nothing.

    Raises
    ------
    OSError
        If it could not.
    """
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), f"{path}")
    _refuse_device(path)
    aside = _fresh_name(path)
    create(aside, b"", flush=False)
    remove(aside)


def _fresh_name(path: Path) -> Path:
    """Return an unused name in a file's folder: two processes may write the same file at once."""
    return path.with_name(f".{secrets.token_hex(8)}{PARTIAL}")


def _refuse_device(path: Path) -> None:
    """Refuse to replace a device: as root, that would take it from the whole machine."""
    with suppress(FileNotFoundError):
        if stat.S_ISCHR(mode := path.lstat().st_mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "it is a device, expected a file; choose another path", f"{path}")


def _write(path: Path, data: bytes, flush: bool, like: os.stat_result | None = None) -> None:
    _refuse_device(path)
    aside = _fresh_name(path)
    try:
        create(aside, data, flush, like)
        if flush:
            put_in_place(aside, path)
        else:
            replace(aside, path)
    except BaseException as error:
        with suppress(OSError):
            remove(aside)
        if isinstance(error, OSError):  # name the file that was asked for; a full disk names none
            raise OSError(error.errno, reason(error), f"{path}") from error
        raise


def _open_file(path: Path, flags: int) -> int:
    """Open a regular file for writing; refuse anything else."""
    if path.is_symlink():  # Windows has no O_NOFOLLOW
        raise _link_error(path)
    try:
        number = os.open(path, flags | _NO_LINK, 0o666)
    except OSError as error:
        raise (_link_error(path) if path.is_symlink() else error) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is a pipe or a device, expected a file; remove it", f"{path}")
    return number


def _insist(action: Callable[[], None]) -> None:
    for pause in _PAUSES:
        try:
            return action()
        except PermissionError:
            time.sleep(pause)
    return action()


def _link_error(path: Path) -> OSError:
    return OSError(
        errno.ELOOP,
        "it is a symbolic link, and nothing is written through links inside a run; remove it, or link the whole "
        "run folder instead",
        f"{path}",
    )


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]
