"""Measure our training step in several processes over MPI, and compare it with PyTorch and with the model of cost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minitransformer.apps.measure.speed.processes import GIGABIT, Network, bytes_received
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.steps import LABELS, compare
from minitransformer.apps.measure.speed.turns import Entrant, prefixed, take_turns
from minitransformer.apps.measure.speed.workloads import CONFIGURATIONS, Workload
from minitransformer.arrays import blas
from minitransformer.data import MissingExtraError

COUNTS = (2, 4, 8)
"""Numbers of processes."""
SLOW = Network(0.001, GIGABIT)
"""Added to the exchange: 1 ms for each message, and 1 Gbit/s."""


def find_mpiexec() -> list[str]:
    """Return the beginning of a command line that starts several processes.

    Raises
    ------
    MissingExtraError
        If mpi4py or mpiexec is not installed.
    """
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")  # with .exe on Windows
    if found is None or find_spec("mpi4py") is None:
        raise MissingExtraError("--processes", "mpi4py with mpiexec", "mpi")
    # by default Open MPI refuses more processes than cores
    return [found, *(["--oversubscribe"] if Path(found).with_name("ompi_info").exists() else [])]


def measure_processes(
    names: Sequence[str], rounds: int, pytorch: bool, tell: Callable[[str], None], counts: Sequence[int] = COUNTS
) -> dict[str, Any]:
    """Measure some configurations, given as to ``measure_speed``, in several numbers of processes.

    Each batch is cut into as many micro-batches as there are processes, of one thread each. One process with the
    same micro-batches and one thread does the same work in turn. Return plain values that can be written as JSON:
    ``"rounds"`` and ``"configurations"``, by name.
    """
    launcher = find_mpiexec()
    result: dict[str, Any] = {"rounds": rounds, "configurations": {}}
    for name in names:
        workload = CONFIGURATIONS[name]
        entrants = [
            Entrant("ours", f"{blas.cores()} processes, one memory", command("ours", workload, blas.cores())),
            *_entrants(launcher, workload, counts),
        ]
        if pytorch:
            entrants.append(Entrant("eager", LABELS["eager"], command("eager", workload)))
        outcomes = take_turns(entrants, rounds, prefixed(tell, name))
        programs = compare(outcomes)
        for n in counts:
            for slow in (False, True):
                key = f"processes-{n}-slow" if slow else f"processes-{n}"
                if "median" in programs[key]:
                    programs[key]["received"] = outcomes[key].answers[-1]["received"]
                    programs[key] |= predict(n, slow, programs, counts[0])
        result["configurations"][name] = {"sizes": workload.flat(), "programs": programs}
    return result


def _entrants(launcher: Sequence[str], workload: Workload, counts: Sequence[int]) -> list[Entrant]:
    """Return, for each number: one process with as many micro-batches, the processes, and a slow network."""

    def entrant(name: str, label: str, n: int, micro_batches: int, network: Network) -> Entrant:
        more = {"micro_batches": micro_batches, "latency": network.latency, "bandwidth": network.bandwidth}
        told = command("processes", workload, None, **more)
        return Entrant(name, label, [*launcher, "-n", str(n), *told])

    fast = Network()
    alone = [entrant(f"alone-{n}", f"1 thread, {n} micro-batch{'es' * (n > 1)}", 1, n, fast) for n in (1, *counts)]
    several = [entrant(f"processes-{n}", f"{n} processes", n, n, fast) for n in counts]
    slow = [entrant(f"processes-{n}-slow", f"{n} processes, slow", n, n, SLOW) for n in counts]
    return [*alone, *several, *slow]


def predict(n: int, slow: bool, programs: dict[str, Any], fewest: int) -> dict[str, float]:
    """Return the model of cost for n processes: bytes that each receives, and seconds of a step.

    Several cores together are not as fast as one times their number. Their speed is measured with the fewest processes.
    """
    own = programs[f"processes-{n}-slow" if slow else f"processes-{n}"]
    found = {"expected_received": bytes_received(n, n, own["description"]["parameters"])}
    measured = {name: program["median"] for name, program in programs.items() if "median" in program}
    if slow:
        terms, seconds = [f"processes-{n}"], SLOW.seconds(2 * (n - 1), found["expected_received"])
    else:
        terms, seconds = [f"alone-{n}", f"alone-{fewest}", f"processes-{fewest}"], 0.0
    if not measured.keys() >= {*terms} or (n == fewest and not slow):
        return found
    one, *pair = (measured[name] for name in terms)
    together = pair[1] * min(fewest, blas.cores()) / pair[0] / min(n, blas.cores()) if pair else 1.0
    return {**found, "expected": one * together + seconds}
