"""The processes that train together, and how they communicate.

Each process has a number, its *rank*. A run is the same whether one process does all the work (`SingleProcess`), or
several share it through the memory of one machine (`shared_memory.py`) or over MPI (`MPI`). Sums are not computed here
but elsewhere, in a fixed order, because the rounding of an MPI library's sums depends on the number of processes and on
the library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy, xp
from minitransformer.data import MissingExtraError

T = TypeVar("T")
U = TypeVar("U")

LAUNCHERS = {
    "PMI_SIZE": "PMI_RANK",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",
}
"""The environment variables in which launchers (MPICH, Open MPI, Slurm) pass the number of processes and the rank."""


class ProcessGroup(Protocol):
    """The communication between processes that train together; all of them make the same calls."""

    rank: int
    """The number of this process, from 0."""
    size: int
    """How many processes there are: the world size."""
    local_rank: int
    """The number of this process among those on its machine."""
    weights: Array | None
    """Memory for the weights, if all processes have the same memory."""

    def all_gather(self, value: T) -> list[T]:
        """Return the values that the processes passed, in the order of their ranks."""

    def broadcast(self, function: Callable[[], T]) -> T:
        """Call a function in the first process only, and return to all of them what it returned."""

    def spread(self, function: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
        """Return a function's values for items, in their order; each process calls it with some of them."""

    def send_buffer(self, sizes: Sequence[int], dtype: Any) -> Array:
        """Return memory for what this process sends to each process, the same in every step."""

    def all_to_all(self, sent: Array, sizes: Sequence[int], received_sizes: Sequence[int]) -> list[Array]:
        """Send each process a part of an array; return the part received from each.

        The next exchange may overwrite the returned arrays.

        Parameters
        ----------
        sent : array, shape (sum of sizes,)
            From ``send_buffer``: the parts for the processes, one after the other.
        sizes, received_sizes : sequence of int
            The number of entries sent to each process and received from each.
        """

    def all_gather_into(self, values: Array, parts: Sequence[slice]) -> None:
        """Fill an array in every process; the process of rank i provides part i."""

    def abort(self, status: int) -> None:
        """End all processes at once."""


class SingleProcess:
    """A single process, which does all the work."""

    rank = local_rank = 0
    size = 1
    weights: Array | None = None

    def all_gather(self, value: T) -> list[T]:
        """Return the value in a list."""
        return [value]

    def broadcast(self, function: Callable[[], T]) -> T:
        """Call the function."""
        return function()

    def spread(self, function: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
        """Call the function with all items."""
        return function(items)

    def send_buffer(self, sizes: Sequence[int], dtype: Any) -> Array:
        """Return new memory."""
        return xp.empty(sum(sizes), dtype=dtype)

    def all_to_all(self, sent: Array, sizes: Sequence[int], received_sizes: Sequence[int]) -> list[Array]:
        """Return what was sent."""
        return [sent]

    def all_gather_into(self, values: Array, parts: Sequence[slice]) -> None:
        """Do nothing: the array is whole."""

    def abort(self, status: int) -> None:
        """Do nothing: the process ends with its own status."""


SINGLE_PROCESS = SingleProcess()


class MPI:
    """Processes that an MPI launcher started; mpi4py is imported here.

    Raises
    ------
    MissingExtraError
        If mpi4py or an MPI library is not installed.
    """

    def __init__(self) -> None:
        try:
            self._mpi = import_module("mpi4py.MPI")
        except (ImportError, RuntimeError) as error:  # a RuntimeError where there is no MPI library
            raise MissingExtraError(f"work over MPI ({error})", "mpi4py with an MPI library", "mpi") from error
        self._world = self._mpi.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size
        self.local_rank = self._world.Split_type(self._mpi.COMM_TYPE_SHARED).rank
        kinds = self._mpi.INFO_ENV.get("mpi_memory_alloc_kinds") or ""
        self._reads_gpus = "cuda" in kinds
        self.weights: Array | None = None
        self._sent, self._received = xp.empty(0), xp.empty(0)  # reused: new memory can cost more than the exchange

    def all_gather(self, value: T) -> list[T]:
        """Return the values that the processes passed, in the order of their ranks."""
        found: list[T] = self._world.allgather(value)
        return found

    def broadcast(self, function: Callable[[], T]) -> T:
        """Call a function in the first process only, and return to all of them what it returned."""
        value: T = self._world.bcast(function() if self.rank == 0 else None)
        return value

    def spread(self, function: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
        """Return a function's values for items, in their order; each process calls it with some of them."""
        return spread(self, function, items)

    def send_buffer(self, sizes: Sequence[int], dtype: Any) -> Array:
        """Return memory for what this process sends."""
        if (self._sent.size, self._sent.dtype) != (sum(sizes), dtype):
            self._sent = xp.empty(sum(sizes), dtype=dtype)
        return self._sent

    def all_to_all(self, sent: Array, sizes: Sequence[int], received_sizes: Sequence[int]) -> list[Array]:
        """Send each process a part of an array; return the part received from each."""
        ours = self._sendable(sent)
        if (self._received.size, self._received.dtype) != (sum(received_sizes), ours.dtype):
            self._received = (xp if self._reads_gpus else np).empty(sum(received_sizes), dtype=ours.dtype)
        kind, starts = self._mpi._typedict[ours.dtype.char], _starts(received_sizes)
        self._world.Alltoallv([ours, sizes, _starts(sizes), kind], [self._received, received_sizes, starts, kind])
        received = asarray(self._received)
        return [received[start : start + size] for start, size in zip(starts, received_sizes, strict=True)]

    def all_gather_into(self, values: Array, parts: Sequence[slice]) -> None:
        """Fill an array in every process; the process of rank i provides part i."""
        ours = self._sendable(values)
        sizes = [part.stop - part.start for part in parts]
        kind = self._mpi._typedict[ours.dtype.char]
        self._world.Allgatherv(self._mpi.IN_PLACE, [ours, sizes, _starts(sizes), kind])
        if ours is not values:
            values[...] = asarray(ours)

    def _sendable(self, array: Array) -> Array:
        """Return an array from which MPI can read: on the host, unless MPI knows GPUs."""
        if self._reads_gpus and not isinstance(array, np.ndarray):
            xp.cuda.get_current_stream().synchronize()
        return array if isinstance(array, np.ndarray) or self._reads_gpus else to_numpy(array)

    def abort(self, status: int) -> None:
        """End all processes at once."""
        self._world.Abort(status)


def spread(group: ProcessGroup, function: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
    """Return a function's values for items, in their order; each process calls it with some of them."""
    found = group.all_gather(function(items[group.rank :: group.size]))
    return [found[i % group.size][i // group.size] for i in range(len(items))]


def _starts(sizes: Sequence[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]


def launched_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the rank that an MPI launcher gave this process; None if none started several processes.

    Raises
    ------
    ValueError
        If an environment variable holds no rank.
    """
    for size, rank in LAUNCHERS.items():
        if environment.get(size, "1") != "1":
            found = environment.get(rank, "0")
            if not (found.isascii() and found.isdigit()):
                raise ValueError(
                    f"the environment variable {rank} is {found!r}, expected the rank of this process, because "
                    f"{size} is {environment[size]!r}; unset both, or start the processes with mpiexec or srun"
                )
            return int(found)
    return None


def start(distributed: str | None = None) -> ProcessGroup:
    """Return the processes that this one works with.

    Parameters
    ----------
    distributed : {"mpi", None}
        Use MPI although no launcher was recognised.

    Raises
    ------
    MissingExtraError
        If mpi4py or an MPI library is needed and not installed.
    """
    if distributed is None and launched_rank() is None:
        return SINGLE_PROCESS
    group = MPI()
    return group if group.size > 1 else SINGLE_PROCESS
