"""Measure configurations: our step beside PyTorch's, and from the inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from minitransformer.arrays import backend
from minitransformer.bench.figures import median_of_all, ratio
from minitransformer.bench.machine import describe
from minitransformer.bench.program import command
from minitransformer.bench.turns import Outcome, Program, take_turns
from minitransformer.bench.workloads import CONFIGURATIONS, GPU_CONFIGURATIONS, Sizes

__all__ = ["LABELS", "anatomy", "compared", "measure", "on_the_card"]

LABELS = {"ours": "minitransformer", "eager": "PyTorch eager", "compiled": "torch.compile"}
ANATOMY_ROUNDS = 3


def measure(
    names: Sequence[str],
    rounds: int,
    programs: Sequence[str],
    workers: int | None,
    tell: Callable[[str], None],
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
        How many workers share our batches; None for as many as training would take.
    tell : callable
        Called with what is happening.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"machine"``, ``"rounds"`` and ``"configurations"``, by name; times
        in seconds, memory in bytes.
    """
    result: dict[str, Any] = {"machine": describe(), "rounds": rounds, "configurations": {}}
    for name in names:
        sizes = (CONFIGURATIONS if backend() == "numpy" else GPU_CONFIGURATIONS)[name]

        def tell_of(text: str, name: str = name) -> None:
            tell(f"{name}: {text}")

        entrants = [Program(p, LABELS[p], command(p, sizes, workers)) for p in programs]
        outcomes = take_turns(entrants, rounds, tell_of)
        if backend() != "numpy":
            found = compared(outcomes)
            result["configurations"][name] = {
                "sizes": asdict(sizes),
                "programs": found,
                "card": on_the_card(found, sizes),
            }
            continue
        inside = take_turns(
            [Program("anatomy", "the account", command("anatomy", sizes, workers))],
            min(rounds, ANATOMY_ROUNDS),
            tell_of,
            steps=lambda seconds: min(max(round(0.4 / seconds), 2), 10),
        )["anatomy"]
        result["configurations"][name] = {
            "sizes": asdict(sizes),
            "programs": compared(outcomes),
            "anatomy": anatomy(inside, sizes),
        }
    return result


def compared(outcomes: dict[str, Outcome]) -> dict[str, Any]:
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


def on_the_card(programs: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """Return how much of the GPU's rate in matrix products each program's step reaches.

    The rate is the best that any of the programs measured with one large product; what a step does beside matrix
    products counts as nothing done.
    """
    rates = [program["description"]["matmul"] for program in programs.values() if "matmul" in program["description"]]
    ceiling = max(rates, default=None)
    achieved = {name: sizes.flops / program["median"] for name, program in programs.items() if "median" in program}
    return {
        "flops": sizes.flops,
        "matmul": ceiling,
        "achieved": achieved,
        "share": {name: rate / ceiling for name, rate in achieved.items()} if ceiling else {},
    }


def anatomy(outcome: Outcome, sizes: Sizes) -> dict[str, Any]:
    """Return where the time goes, from the answers of the program in ``anatomy.py``.

    Of each matrix product the best time of all turns counts; of everything else the median over the turns.
    """
    if outcome.failed is not None:
        return {"failed": outcome.failed}
    description, answers = outcome.description, outcome.answers
    step = median_of_all([answer["seconds"] for answer in answers])
    ways = {"together": ("products", answers[0]["together"])}
    if answers[0]["side_by_side"] is not None:
        ways["side_by_side"] = ("products_of_share", answers[0]["side_by_side"])
    ideal = {
        way: sum(
            product["times"] * min(answer[way][i] for answer in answers)
            for i, product in enumerate(description[products])
        )
        for way, (products, _) in ways.items()
    }
    best = min(ideal.values())
    # Medians of shares, not of times, so that a turn on a slow machine counts like any other.
    alone = median_of_all([answer["alone"] for answer in answers])
    shares = {
        kind: median(answer["booked"][kind] / median(answer["alone"]) for answer in answers)
        for kind in answers[0]["booked"]
    }
    shares["the rest"] = max(0.0, 1 - sum(shares.values()))
    overhead = median(median(answer["tiny"]) / median(answer["alone"]) for answer in answers)
    return {
        "failed": None,
        "workers": description["workers"],
        "step": step,
        "flops": description["flops"],
        "ideal": ideal,
        "ceiling": description["flops"] / best,
        "achieved": description["flops"] / step,
        "share_of_ceiling": best / step,
        "alone": alone,
        "sentences": -(-sizes.batch // description["workers"]),
        "shares": shares,
        "autograd_and_python": {
            "seconds": median(median(answer["tiny"]) for answer in answers),
            "share": overhead,
        },
        "products": description["products"],
        "products_of_share": description["products_of_share"],
        "answers": answers,
    }
