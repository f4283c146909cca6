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
from typing import Any

from minitransformer.apps.bench.workloads import BASE, Workload

GIGABIT = 1e9 / 8
"""Bytes a second."""
LATENCY = 50e-6
"""Of a message between machines, in seconds: Ethernet with TCP."""
RATES = (1, 10, 100)
"""Of networks, in Gbit/s."""
COUNTS = tuple(2**i for i in range(11))
"""Numbers of processes."""
SPEEDS = (1, 50)
"""Of the processes, times the one that was measured."""
PAPER = {
    "base": BASE.changed(vocabulary=37000, batch=96, length=32),
    "big": BASE.changed(d_model=1024, n_heads=16, d_ff=4096, vocabulary=37000, batch=96, length=32),
}
"""The paper's models, each process with an eighth of the paper's 25,000 tokens."""


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


def parameters_of(workload: Workload) -> int:
    """Return about how many weights a model has: those of its matrices, with one for both embeddings and the output."""
    m = workload.model
    attention, feed_forward = 4 * m.d_model**2, 2 * m.d_model * m.d_ff
    layers = m.n_layers * (attention + feed_forward) + m.decoder_layers * (2 * attention + feed_forward)
    return workload.vocabulary * m.d_model + layers


def project(flops_per_second: float) -> dict[str, Any]:
    """Return which part of a step n processes spend on computing, for the paper's models and some networks.

    Each process has one share, of the same size for every n. So n times this part is their speed in
    tokens per second, relative to one process.

    Parameters
    ----------
    flops_per_second : float
        What one process reaches in a whole step.

    Returns
    -------
    dict
        By model: ``"seconds"`` that a process computes in a step, ``"parameters"``, ``"processes"`` and ``"curves"``.
    """
    found: dict[str, Any] = {}
    for name, workload in PAPER.items():
        seconds, parameters = workload.flops / flops_per_second, parameters_of(workload)
        curves = [
            {"gigabits": rate, "speed": speed, "efficiency": _efficiency(seconds / speed, parameters, rate)}
            for speed in SPEEDS
            for rate in RATES
        ]
        found[name] = {"seconds": seconds, "parameters": parameters, "processes": list(COUNTS), "curves": curves}
    return found


def _efficiency(seconds: float, parameters: int, rate: float) -> list[float]:
    network = Network(LATENCY, rate * GIGABIT)
    waits = [network.seconds(2 * (n - 1), bytes_received(n, n, parameters)) for n in COUNTS]
    return [seconds / (seconds + wait) for wait in waits]
