"""What several processes cost: the bytes that a step sends, and a model of the time that it takes.

With n processes, S shares and P weights of 4 bytes, a step is

    T(n) = C + 2 (n - 1) α + b / β        where        b = (S / n + 1) (n - 1) / n · 4 P

C is what the process computes, α the latency of a message, β the bandwidth in bytes a second, b what each process
receives: of each share's gradient that it did not compute, its part, and the weights that the others moved. With one
share for each process b is what a ring Allreduce sends, 2 (n - 1) / n times the weights.

The model leaves out what happens at the same time: nothing here overlaps computing and sending. It assumes that every
pair of machines can use its full bandwidth at the same time, and that all processes are done at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitransformer.bench.workloads import BASE, Workload

__all__ = ["GIGABIT", "LATENCY", "PAPER", "Network", "bytes_received", "parameters_of", "project"]

GIGABIT = 1e9 / 8
"""Bytes a second."""
LATENCY = 50e-6
"""Of a message between machines, in seconds: Ethernet with TCP."""
RATES = (1, 10, 100)
"""Of networks, in Gbit/s."""
COUNTS = tuple(2**i for i in range(11))
"""Of processes."""
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
    return workload.vocabulary * m.d_model + m.n_layers * (3 * 4 * m.d_model**2 + 2 * 2 * m.d_model * m.d_ff)


def project(flops_per_second: float) -> dict[str, Any]:
    """Return which part of a step n processes spend on computing, for the paper's models and some networks.

    Each process has one share, of the same size for every n. So n times this part is how many times as many tokens per
    second as one process they work through.

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
