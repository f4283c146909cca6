"""Strict readers for untrusted files: each is read completely, or rejected with a message that names it.

Only regular files of bounded size are read: reading a pipe or a device might never end. JSON and TOML are
refused where they are nested too deeply for Python. A class of options declares and checks their values
(`minitransformer.options.Options.from_flat`).
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGEST = 2**30
"""The largest size in bytes of a file of JSON, TOML or lines."""

_LARGEST_POINTER = 1024
"""Pointers of Git LFS are smaller."""
_KINDS: dict[Callable[[int], bool], str] = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class FileError(ValueError):
    """A file is missing, is not a regular file, or has unexpected contents; the message names it."""


def reason(error: Exception) -> str:
    """Return why a call to the operating system failed, without the number and the path that ``str(error)`` has."""
    return getattr(error, "strerror", None) or f"{error}"


def require_regular_file(path: Path | str, largest: int | None = LARGEST) -> None:
    """Raise a FileError unless a path is a regular file of at most ``largest`` bytes, and not a Git LFS pointer."""
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:  # a name with a zero character is a ValueError
        raise FileError(f"cannot read {path}: {reason(error)}") from error
    if not stat.S_ISREG(status.st_mode):
        found = next((words for is_one, words in _KINDS.items() if is_one(status.st_mode)), "something else")
        raise FileError(f"{path} is {found}, expected a regular file")
    if largest is not None and status.st_size > largest:
        raise FileError(f"{path} has {status.st_size:,} bytes, expected at most {largest:,}")
    if status.st_size < _LARGEST_POINTER and _read(path).startswith(b"version https://git-lfs"):
        raise FileError(
            f"{path} is a Git LFS pointer, expected the file itself; fetch it with `git lfs pull`, or download it"
        )


def read_file(path: Path | str, largest: int | None = LARGEST) -> bytes:
    """Return the contents of a regular file.

    Raises
    ------
    FileError
        If it is missing, too large, not a regular file, or cannot be read.
    """
    require_regular_file(path, largest)
    return _read(path)


def _read(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason(error)}") from error


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text in UTF-8; every string in it can be encoded as UTF-8 again.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"found {error.object[error.start]!r}, half a surrogate pair, expected Unicode text"
        ) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for name, value in pairs:
            if value != found[name]:
                raise ValueError(f"{name!r} occurs twice, with different values")
    return found


def read_json(path: Path | str) -> Any:
    """Return the value in a file of JSON; see `parse_json`.

    Raises
    ------
    FileError
        If it cannot be read, or is not JSON.
    """
    return _decode(path, "JSON", parse_json)


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return the table in a file of TOML.

    Raises
    ------
    FileError
        If it cannot be read, or is not TOML.
    """
    table: dict[str, Any] = _decode(path, "TOML", lambda data: tomllib.loads(data.decode("utf-8-sig")))
    return table


def _decode(path: Path | str, name: str, parse: Callable[[bytes], Any]) -> Any:
    data = read_file(path)
    try:
        return parse(data)
    except RecursionError as error:
        raise FileError(f"{path} cannot be read as {name}: it is nested too deeply") from error
    except ValueError as error:  # that of each decoder is one, and so is a number of too many digits
        raise FileError(f"{path} cannot be read as {name}: {error}") from error
