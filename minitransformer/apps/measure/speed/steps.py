"""Measure configurations: our step beside PyTorch's, and from the inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitransformer.apps.measure.means import median_of_all, ratio
from minitransformer.apps.measure.speed.anatomy import summarise_anatomy
from minitransformer.apps.measure.speed.gpu import compare_with_rate
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.turns import Entrant, Outcome, prefixed, take_turns
from minitransformer.apps.measure.speed.workloads import CONFIGURATIONS, GPU_CONFIGURATIONS
from minitransformer.arrays import backend

LABELS = {"ours": "minitransformer", "eager": "PyTorch eager", "compiled": "torch.compile"}
ANATOMY_ROUNDS = 3


def measure_speed(
    names: Sequence[str], rounds: int, programs: Sequence[str], workers: int | None, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure some configurations.

    Parameters
    ----------
    names : sequence of str
        Which ones; keys of ``CONFIGURATIONS``, on a GPU of ``GPU_CONFIGURATIONS``.
    rounds : int
        How many turns each program has.
    programs : sequence of {"ours", "eager", "compiled"}
        Which programs take part.
    workers : int or None
        How many processes share our batches; None for as many as training would take.
    tell : callable
        Called with each message about the progress.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"rounds"`` and ``"configurations"``, by name; times
        in seconds, memory in bytes.
    """
    result: dict[str, Any] = {"rounds": rounds, "configurations": {}}
    for name in names:
        workload = (CONFIGURATIONS if backend() == "numpy" else GPU_CONFIGURATIONS)[name]
        tell_of = prefixed(tell, name)
        entrants = [Entrant(p, LABELS[p], command(p, workload, workers)) for p in programs]
        outcomes = take_turns(entrants, rounds, tell_of)
        found = {"sizes": workload.flat(), "programs": compare(outcomes)}
        if backend() != "numpy":
            found["gpu"] = compare_with_rate(found["programs"], workload)
        else:
            inside = take_turns(
                [Entrant("anatomy", "the account", command("anatomy", workload, workers))],
                min(rounds, ANATOMY_ROUNDS),
                tell_of,
                steps=lambda seconds: min(max(round(0.4 / seconds), 2), 10),
            )
            found["anatomy"] = summarise_anatomy(inside["anatomy"], workload)
        result["configurations"][name] = found
    return result


def compare(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Return each program's median step, its peak memory, and how many times as long as ours it takes."""
    found: dict[str, Any] = {}
    ours = outcomes.get("ours")
    for name, outcome in outcomes.items():
        seconds = [answer["seconds"] for answer in outcome.answers]
        entry: dict[str, Any] = {
            "label": outcome.label,
            "failed": outcome.failed,
            "description": outcome.description,
            "seconds": seconds,
        }
        if outcome.failed is None and seconds:
            entry["median"] = median_of_all(seconds)
            entry["peak"] = outcome.answers[-1]["peak"]
            if "reserved" in outcome.answers[-1]:
                entry["reserved"] = outcome.answers[-1]["reserved"]
            if ours is not None and ours.failed is None:
                entry["times_ours"] = ratio(seconds, [answer["seconds"] for answer in ours.answers])._asdict()
        found[name] = entry
    return found
