"""The cost of several processes: the bytes that a step sends, and a model of its time.

With n processes, S shares and P weights of 4 bytes, a step is

    T(n) = C + 2 (n - 1) α + b / β        where        b = (S / n + 1) (n - 1) / n · 4 P

C is the time of computing, α the latency of a message, β the bandwidth in bytes a second, and b the bytes that each
process receives: its part of each gradient that it did not compute, and the weights that the others updated. With one
share for each process b is what a ring Allreduce sends, 2 (n - 1) / n times the weights.

In the model, computing and sending do not overlap. It assumes that every
pair of machines can use its full bandwidth at the same time, and that all processes are done at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def bytes_received(processes: int, shares: int, parameters: int) -> float:
    """Return how many bytes of gradients and weights a process receives in a step, the mean over the processes."""
    return (shares / processes + 1) * (processes - 1) / processes * 4 * parameters
