"""Measure decoding: how many target tokens are written in a second, beside PyTorch with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitransformer.apps.measure.speed.ours_decoding import max_length
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.steps import LABELS, compare
from minitransformer.apps.measure.speed.turns import Entrant, prefixed, take_turns
from minitransformer.apps.measure.speed.workloads import CONFIGURATIONS, Workload

LARGEST_BATCH = {"base": 16}
"""The number of sentences decoded together; by default as many as in a training step."""
TIE = 1e-3
"""The difference of two scores that rounding may decide."""


def decoding_workload(name: str) -> Workload:
    """Return a configuration with the batch that is decoded."""
    workload = CONFIGURATIONS[name]
    return workload.changed(batch=LARGEST_BATCH.get(name, workload.batch))


def agreement(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, int]:
    """Compare the translations of two programs.

    Parameters
    ----------
    ours, theirs : dict
        The programs' descriptions.

    Returns
    -------
    dict
        The number of ``"sentences"``; how many are the ``"same"``; how many differ only by ``"ties"``: where the greedy
        ones part, the two best tokens differ by rounding, or the scores of a beam do; and how many are ``"different"``.
    """
    found = {"sentences": len(ours["sentences"]), "same": 0, "ties": 0, "different": 0}
    for i, (a, b) in enumerate(zip(ours["sentences"], theirs["sentences"], strict=True)):
        if a == b:
            kind = "same"
        elif ours["scores"] is not None:
            close = abs(ours["scores"][i] - theirs["scores"][i]) <= TIE
            kind = "ties" if close else "different"
        else:
            parting = next((j for j, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
            kind = "ties" if parting is not None and ours["margins"][i][parting] <= TIE else "different"
        found[kind] += 1
    return found


def measure_decoding(
    names: Sequence[str], rounds: int, programs: Sequence[str], workers: int | None, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure greedy decoding and beam search in some configurations, given as to ``measure_speed``.

    Return plain values that can be written as JSON: ``"rounds"`` and ``"decoding"``, by configuration; times are those
    of decoding the whole batch once, in seconds. By default a process for each core shares our sentences.
    """
    result: dict[str, Any] = {"rounds": rounds, "decoding": {}}
    for name in names:
        workload, searches = decoding_workload(name), {}
        for search in ("greedy", "beam"):
            entrants = [Entrant(p, LABELS[p], command(f"{p}-{search}", workload, workers)) for p in programs]
            outcomes = take_turns(entrants, rounds, prefixed(tell, f"{name}, {search}"))
            searches[search] = summarise(compare(outcomes))
        result["decoding"][name] = {"sizes": workload.flat(), "max_length": max_length(workload), "searches": searches}
    return result


def summarise(programs: dict[str, Any]) -> dict[str, Any]:
    """Return what ``compare`` found with tokens per second, and whether both have written the same."""
    described = {name: program["description"] for name, program in programs.items()}
    both = [described.get(name, {}) for name in ("ours", "eager")]
    same = agreement(*both) if all("sentences" in description for description in both) else None
    found = {}
    for name, program in programs.items():
        kept = {key: value for key, value in described[name].items() if key not in ("sentences", "scores", "margins")}
        found[name] = program | {"description": kept}
        if "median" in program:
            tokens = sum(len(sentence) for sentence in described[name]["sentences"])
            found[name] |= {"tokens": tokens, "tokens_per_second": tokens / program["median"]}
    return {"programs": found, "agreement": same}
