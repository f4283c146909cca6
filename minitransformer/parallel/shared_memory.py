"""Processes of one machine, forked from this one: each has its data and model, and all of them have one memory.

Weights exist once, and a gradient is written where the other processes read it: no array goes through a pipe. Pipes
carry only losses and other small values. The memory has no name and belongs to the processes, so nothing is left behind
when they end, whatever ends them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from copy import copy
from functools import lru_cache
from itertools import accumulate, chain
from mmap import mmap
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from minitransformer.arrays import Array, blas
from minitransformer.autograd import Tensor
from minitransformer.files import reason
from minitransformer.parallel.process_group import SINGLE_PROCESS, ProcessGroup, spread

T = TypeVar("T")
U = TypeVar("U")
Line: TypeAlias = tuple[Connection, Connection]
"""One pipe to read from and one to write to; a single one for both directions would be a socket."""
FORKS_SAFELY = sys.platform == "linux"
"""On macOS a fork can stop at a lock of the system's libraries; Windows has none."""
END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: Linux sends a process this signal when its parent ends."""


class ProcessLostError(RuntimeError):
    """One of several processes has ended before its work was done."""


class _Failed(NamedTuple):
    """What a process sends in place of a value, as its last words."""

    error: BaseException


class Forked:
    """One of the processes of `forked`; see `ProcessGroup`.

    Parameters
    ----------
    rank, size : int
        Which of how many processes.
    others : list of pairs of Connection
        To read from and to write to: in the first process, for the others in the order of their ranks; in these, for
        the first.
    weights : array or None
        Memory for the weights, the same in all processes.
    exchanged : array
        Memory for the gradients that the processes exchange.
    """

    def __init__(self, rank: int, size: int, others: list[Line], weights: Array | None, exchanged: Array) -> None:
        self.rank = self.local_rank = rank
        self.size, self.weights = size, weights
        self._others, self._exchanged = others, exchanged
        self.children: list[int] = []
        """The numbers that the system gave to the other processes; only the first process knows them."""
        self._starts = lru_cache(maxsize=1)(self._sizes_of_all)

    def all_gather(self, value: T) -> list[T]:
        """Return the values that the processes passed, in the order of their ranks."""
        if self.rank:
            self._send(0, value)
            values: list[T] = self._receive(0)
            return values
        values = [value, *(self._receive(i) for i in range(len(self._others)))]
        for i in range(len(self._others)):
            self._send(i, values)
        return values

    def broadcast(self, function: Callable[[], T]) -> T:
        """Call a function in the first process only, and return to all of them what it returned."""
        if self.rank:
            found: T = self._receive(0)
            return found
        value = function()
        for i in range(len(self._others)):
            self._send(i, value)
        return value

    def spread(self, function: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
        """Return a function's values for items, in their order; each process calls it with some of them."""
        return spread(self, function, items)

    def send_buffer(self, sizes: Sequence[int], dtype: Any) -> Array:
        """Return the memory for what this process sends: a part of the memory that all processes have."""
        start = self._starts(tuple(sizes))[self.rank][0]
        return self._exchanged[start : start + sum(sizes)]

    def all_to_all(self, sent: Array, sizes: Sequence[int], received_sizes: Sequence[int]) -> list[Array]:
        """Return what each process sends to this one, as the other processes have written it."""
        starts = self._starts(tuple(sizes))
        self.all_gather(None)  # by now all of them have
        places = zip((own[self.rank] for own in starts), received_sizes, strict=True)
        return [self._exchanged[start : start + size] for start, size in places]

    def _sizes_of_all(self, sizes: tuple[int, ...]) -> list[list[int]]:
        """Return where in the memory each process begins to write for each."""
        found = self.all_gather(sizes)
        starts = list(accumulate((size for sizes in found for size in sizes), initial=0))
        return [starts[rank * self.size : (rank + 1) * self.size] for rank in range(self.size)]

    def all_gather_into(self, values: Array, parts: Sequence[slice]) -> None:
        """Fill an array in every process; the process of rank i provides part i. The weights are there already."""
        if values is not self.weights:
            whole = self._exchanged[: len(values)]
            whole[parts[self.rank]] = values[parts[self.rank]]
            self.all_gather(None)
            values[...] = whole
        self.all_gather(None)

    def abort(self, status: int) -> None:
        """Do nothing: `forked` ends all processes when its block ends in the first one."""

    def _send(self, to: int, value: object) -> None:
        with suppress(OSError):
            self._others[to][1].send(value)
            return
        self._lost(to)  # not while the first error is handled, which would keep the message that was not sent

    def _receive(self, sender: int) -> Any:
        try:
            value = self._others[sender][0].recv()
        except (EOFError, OSError):
            self._lost(sender)
        if isinstance(value, _Failed):
            raise value.error
        return value

    def _lost(self, which: int) -> NoReturn:
        """Raise the error of a process that has ended."""
        if self.rank:
            os._exit(1)
        last: Any = None
        with suppress(EOFError, OSError):
            while not isinstance(last, _Failed):
                last = self._others[which][0].recv()
        if isinstance(last, _Failed):
            raise last.error
        status = os.waitpid(self.children[which], 0)[1]
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
        raise ProcessLostError(
            f"process {which + 1} of {self.size} was ended by {how}, usually because memory is full. Continue a "
            "training run from its last checkpoint with `minitransformer resume`, in one process with --workers 1"
        )


def can_fork() -> bool:
    """Return whether this process can be divided: on Linux, while it has a single thread of Python's (no notebook)."""
    return FORKS_SAFELY and threading.active_count() == 1


@contextmanager
def forked(size: int, parameters: Sequence[Tensor] = (), micro_batches: int = 1) -> Iterator[ProcessGroup]:
    """Run the block in several processes, which divide the cores; only this one leaves it.

    The others print nothing, and end with the block. If one fails, its error is raised in this one; if this one leaves
    the block, for whatever reason, the others end.

    Parameters
    ----------
    size : int
        How many processes; with 1, where `can_fork` is False, and where the system refuses that many, which is
        warned of, the block runs in this one alone.
    parameters : sequence of Tensor, optional
        What the block trains. It finds memory for it in the ``weights`` of its `ProcessGroup`.
    micro_batches : int
        The number of micro-batches of each batch.

    Yields
    ------
    ProcessGroup
        The processes.

    Raises
    ------
    ProcessLostError
        In this process, if another was killed.
    """
    if size == 1 or not can_fork():
        yield SINGLE_PROCESS
        return
    number, dtype = sum(p.size for p in parameters), parameters[0].dtype if parameters else np.dtype("f4")
    memory = np.frombuffer(mmap(-1, max(1, (1 + micro_batches) * number) * dtype.itemsize), dtype)
    weights, exchanged = (memory[:number] if parameters else None), memory[number:]
    first = Forked(0, size, [], weights, exchanged)
    sys.stdout.flush()
    refused = None
    try:
        try:
            for rank in range(1, size):
                (read, told), (heard, write) = Pipe(duplex=False), Pipe(duplex=False)
                first.children.append(_fork())
                if not first.children[-1]:
                    for connection in (read, write, *chain(*first._others)):
                        connection.close()
                    with _dividing_cores(size), _ending_here(told):
                        yield Forked(rank, size, [(heard, told)], weights, exchanged)
                told.close()
                heard.close()
                first._others.append((read, write))
        except OSError as error:
            refused = error
            _end_children(first)
        if refused:
            warnings.warn(
                f"the system refused to start more processes ({reason(refused)}), so one does all the work",
                stacklevel=3,
            )
            yield SINGLE_PROCESS
        else:
            with _dividing_cores(size):
                yield first
    finally:
        _end_children(first)


def _end_children(first: Forked) -> None:
    while first.children:
        child = first.children.pop()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    for connection in chain(*first._others):
        connection.close()


def _fork() -> int:
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about BLAS's threads, which it starts again by itself
        child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)
    return child


@contextmanager
def _dividing_cores(size: int) -> Iterator[None]:
    with blas.divided_cores(size), blas.threads(blas.cores()):
        yield


@contextmanager
def _ending_here(first: Connection) -> Iterator[None]:
    """Run the block silently, tell the first process what went wrong, and end this one."""
    with open(os.devnull, "w", encoding="utf-8") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        try:
            yield
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt | MemoryError):
                error.add_note(f"In process {os.getpid()}:\n{traceback.format_exc()}")
            try:
                first.send(_Failed(copy(error)))  # a copy is made as the receiver makes it
            except (TypeError, AttributeError, ValueError):
                first.send(_Failed(RuntimeError(f"{type(error).__name__}: {error}")))
        finally:
            os._exit(0)  # also if the first process has ended, and nothing can be sent
