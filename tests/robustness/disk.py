"""A file system on which a process dies at its n-th change."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

CHANGES = ("open", "write", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Killed(BaseException):
    """The process has been killed; nothing that it does from here on reaches the disk."""


class Disk:
    """Counts the changes that reach the disk, and lets the process die at one of them.

    Parameters
    ----------
    last : int, optional
        How many changes are made before the process dies; of a write at that place half is made. By default it lives.
    """

    def __init__(self, last=None):
        self.last = last
        self.changes = []
        """What was done, as (name of the call, path or number of an open file)."""
        self.unseen = []
        """Files that were opened for writing in another way, so that no kill can be put between two changes."""

    def __call__(self, name, function, *arguments, **named):
        if name == "open" and not arguments[1] & WRITING:
            return function(*arguments, **named)
        if self.last is not None and len(self.changes) >= self.last:
            if len(self.changes) == self.last and name == "write":
                function(arguments[0], arguments[1][: len(arguments[1]) // 2])
            self.changes.append(("killed", name))
            raise Killed(f"at {name} {arguments[0]}")
        self.changes.append((name, arguments[0]))
        return None if name == "fsync" else function(*arguments, **named)


_active = []


def _notice(event, arguments):
    """Note files that are opened for writing, but not by ``os.open``, which gives no mode."""
    if event == "open" and _active and arguments[1] is not None and set(arguments[1]) & set("wax+"):
        _active[-1].unseen.append(arguments[0])


@contextmanager
def changes(last=None):
    """Count what is changed on the disk within the block, and die at a change if asked to; yield the `Disk`."""
    if not hasattr(changes, "hooked"):
        sys.addaudithook(_notice)  # which cannot be taken away again, so it is added once
        changes.hooked = True
    disk = Disk(last)
    before = {name: getattr(os, name) for name in CHANGES}
    for name, function in before.items():
        setattr(os, name, lambda *arguments, _of=(name, function), **named: disk(*_of, *arguments, **named))
    _active.append(disk)
    try:
        yield disk
    finally:
        _active.pop()
        for name, function in before.items():
            setattr(os, name, function)


def names(folder):
    """Return the names of all files below a folder."""
    folder = Path(folder)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
