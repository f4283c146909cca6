"""A command in several processes: which one prints, and how all of them end."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.parser import ARGUMENTS
from minitransformer.arrays import backend, blas, choose_device
from minitransformer.parallel import (
    ProcessGroup,
    forked,
    launched_rank,
    start,
)

GRACE = 1.0
"""Seconds for which other processes hold back an error: the first process reports an error that occurs in all."""

LAST_WORDS = 0.5
"""Seconds between an error's report and the end of all processes: a launcher can drop output that it has not read."""


MANY = 128
"""Items from which several processes are faster than one, although they must be started."""


def find_group(args: argparse.Namespace) -> None:
    """Find the processes that share a command, as ``args.group``, and choose a GPU for this one.

    Raises
    ------
    UsageError
        If a launcher started several processes of a command for one.
    MissingExtraError
        If MPI is needed and not installed.
    """
    if "distributed" in ARGUMENTS["commands"][args.command]:
        args.group = start(getattr(args, "distributed", None))
        if args.group.size > 1:
            choose_device(args.group.local_rank)
    elif launched_rank() is not None:
        raise UsageError(f"{args.command} runs in one process; start it without mpiexec or srun")


@contextmanager
def spread_over_cores(group: ProcessGroup, items: int) -> Iterator[ProcessGroup]:
    """Decode many items in a process for each core, or in the processes that share the command already."""
    fork = group.size == 1 and backend() == "numpy" and items >= MANY
    with forked(blas.cores() if fork else 1) as several:
        yield several if fork else group


@contextmanager
def quiet(rank: int | None) -> Iterator[None]:
    """Let only the first process print; what others write to standard error is held back."""
    if not rank:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nothing, redirect_stdout(nothing), redirect_stderr(io.StringIO()):
        yield


def end_all(status: int, group: ProcessGroup, errors: TextIO) -> None:
    """End all processes, because a command that they share failed in this one; they would wait for it for ever.

    Parameters
    ----------
    status : int
        The exit status of all of them.
    group : ProcessGroup
        The processes that share the command.
    errors : text file
        Where a quiet process prints its error.
    """
    if isinstance(sys.stderr, io.StringIO):
        time.sleep(GRACE)
        errors.write("".join(f"process {group.rank}: {line}\n" for line in sys.stderr.getvalue().splitlines()))
    errors.flush()
    sys.stdout.flush()
    time.sleep(LAST_WORDS)
    group.abort(status)
