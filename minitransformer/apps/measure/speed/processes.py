"""Our training step in several processes over MPI: the time, traffic and memory of each, and a model of its cost.

With n processes, S micro-batches and P weights of 4 bytes, a step is

    T(n) = C + 2 (n - 1) α + b / β        where        b = (S / n + 1) (n - 1) / n · 4 P

C is the time of computing, α the latency of a message, β the bandwidth in bytes a second, and b the bytes that each
process receives: its part of each gradient that it did not compute, and the weights that the others updated. With one
micro-batch for each process b is what a ring Allreduce sends, 2 (n - 1) / n times the weights.

In the model, computing and sending do not overlap. It assumes that every pair of machines can use its full bandwidth at
the same time, and that all processes are done at the same moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minitransformer.apps.measure.machine import peak_memory
from minitransformer.apps.measure.speed.ours import WARM_UP, Program, build, random_batch, time_steps
from minitransformer.apps.measure.speed.workloads import LABEL_SMOOTHING, LEARNING_RATE, Workload
from minitransformer.arrays import Array, blas
from minitransformer.optim import Adam
from minitransformer.parallel import MPI
from minitransformer.training import training_step

GIGABIT = 1e9 / 8
"""Bytes a second."""


@dataclass(frozen=True)
class Network:
    """A network: seconds for each message, and bytes a second (0: no limit)."""

    latency: float = 0.0
    bandwidth: float = 0.0

    def seconds(self, messages: int, size: float) -> float:
        """Return the seconds that a process takes to exchange messages with this total number of bytes."""
        return messages * self.latency + (size / self.bandwidth if self.bandwidth else 0.0)


def bytes_received(processes: int, micro_batches: int, parameters: int) -> float:
    """Return how many bytes of gradients and weights a process receives in a step, the mean over the processes."""
    return (micro_batches / processes + 1) * (processes - 1) / processes * 4 * parameters


GLANCE = 0.005
"""The interval in seconds at which a process checks for its turn; a blocking MPI call would keep a core busy."""


class DelayedMPI(MPI):
    """MPI with a count of the received bytes, and optionally the delays of a slower network.

    Parameters
    ----------
    network : Network
        Its latency and bandwidth are added to the time of the exchange here.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network, self.received = network, 0

    def all_to_all(self, sent: Array, sizes: Sequence[int], received_sizes: Sequence[int]) -> list[Array]:
        """Exchange gradients."""
        received = super().all_to_all(sent, sizes, received_sizes)
        self._delay(sum(part.nbytes for part in received))
        return received

    def all_gather_into(self, values: Array, parts: Sequence[slice]) -> None:
        """Exchange weights."""
        super().all_gather_into(values, parts)
        self._delay(values.nbytes - values[parts[self.rank]].nbytes)

    def _delay(self, size: int) -> None:
        self.received += size
        if self.network.latency or self.network.bandwidth:
            time.sleep(self.network.seconds(self.size - 1, size))

    def wait(self, times: int) -> int:
        """Return what the first process passes, as soon as it does; until then leave the cores to other programs."""
        request = self._world.Ibarrier()
        while not request.Test():
            time.sleep(GLANCE)
        return self.broadcast(lambda: times)


@contextmanager
def prepare(workload: Workload, micro_batches: int, network: Network) -> Iterator[Program]:
    """Return our program in the first process that mpiexec started; the others work for it. One thread each."""
    group = DelayedMPI(network)
    model, batch = build(workload), random_batch(workload)
    optimiser = Adam(model.parameters(), part=(group.rank, group.size))
    with blas.threads(1):

        def turn(times: int) -> dict[str, Any]:
            times = group.wait(times)
            if not times:
                raise SystemExit
            group.received = 0
            seconds = time_steps(step, times)
            found = group.all_gather((peak_memory(), group.received // times))
            peaks, received = [peak for peak, _ in found], [size for _, size in found]
            return {"seconds": seconds, "peak": max(peaks, key=lambda peak: peak or 0), "received": received}

        def step() -> float:
            return float(
                training_step(
                    model, optimiser, batch, LEARNING_RATE, LABEL_SMOOTHING, micro_batches=micro_batches, group=group
                )
            )

        time_steps(step, WARM_UP)
        while group.rank:
            turn(0)  # as the first process does
        yield turn, {"processes": group.size, "micro_batches": micro_batches, "parameters": optimiser.values.size}
        turn(0)  # the others end
