"""Locks a run folder: two training runs would overwrite each other's checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path

from minitransformer.durable import lock_of
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup
from minitransformer.runs.errors import RunError

BESIDE = sys.platform == "win32"
"""Whether a file beside the folder is locked instead of the folder."""


@contextmanager
def lock_folder(folder: Path, group: ProcessGroup = SINGLE_PROCESS) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it does not exist; no other process can hold it meanwhile.

    The system releases the lock when the process ends, even if it is killed. Windows cannot lock folders; there, a file
    beside the folder is locked.

    Parameters
    ----------
    folder : Path
        The folder.
    group : ProcessGroup
        The processes that train together in it; the first holds the lock.

    Raises
    ------
    RunError
        If another process holds the lock.
    """
    if group.rank:
        yield
        return
    with suppress(OSError):  # the first write reports what is wrong with the path
        folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        yield
        return
    refusal = RunError(f"another process is training in {folder}; wait until it ends, or stop it")
    if BESIDE:
        place = folder.resolve()
        with ExitStack() as stack:
            try:
                stack.enter_context(lock_of(place.with_name(f".{place.name}"), seconds=0.0, nested=False))
            except TimeoutError as error:
                raise refusal from error
            yield
        return
    fcntl = import_module("fcntl")
    number = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refusal from error
        except OSError:  # some network file systems have no locks
            pass
        yield
    finally:
        os.close(number)
