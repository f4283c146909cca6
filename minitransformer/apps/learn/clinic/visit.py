"""Trains by a learner's script in a process of its own, judges the script, and judges a diagnosis."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from minitransformer.apps.learn.clinic.broken_scripts import HERE, BrokenScript
from minitransformer.apps.learn.clinic.causes import CAUSES
from minitransformer.durable import lock_of, write_whole
from minitransformer.files import read_json
from minitransformer.options import Options, option

TIME_LIMIT = 120.0
"""Seconds after which a training run is stopped; a healthy one takes 4 to 6 on one core."""
SCORE = 0.9
"""The share of held-out rows that a healthy model writes exactly: over seeds 1 to 3 it was 0.97 or more."""
STEPS, PARAMETERS, TARGETS = 250, 33_984, 96_000
"""Properties of the healthy training run: steps, parameters, and target positions in all batches."""


class ScriptError(Exception):
    """A training script failed, or did not end in time."""


def find_report(text: str, kept: Path) -> dict[str, Any] | None:
    """Return the kept report of exactly this script, or None."""
    try:
        found = read_json(kept)
        return dict(found["report"]) if found["script"] == _key(text) else None
    except (ValueError, LookupError, TypeError, OSError):
        return None


def _key(text: str) -> str:
    return hashlib.sha256(text.encode() + (HERE / "examination.py").read_bytes()).hexdigest()


def examine_text(text: str, name: str, kept: Path, time_limit: float = TIME_LIMIT) -> dict[str, Any]:
    """Train by a script and return the report; the report of an unchanged script is read again.

    Parameters
    ----------
    text : str
        The script.
    name : str
        What tracebacks call it.
    kept : Path
        Where the report is kept.
    time_limit : float
        In seconds.

    Raises
    ------
    ScriptError
        If the script fails or takes too long.
    """
    report = find_report(text, kept)
    if report is None:
        report = _train(text, name, time_limit)
        write_whole(kept, json.dumps({"script": _key(text), "report": report}).encode())
    return report


def _train(text: str, name: str, time_limit: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "minitransformer.apps.learn.clinic.examination", name]
    # One thread, so that numbers do not depend on how many cores there are.
    env = os.environ | {"MINITRANSFORMER_BACKEND": "numpy", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    env["PYTHONIOENCODING"] = "utf-8"  # on Windows pipes have another encoding
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, env=env, timeout=time_limit, encoding="utf-8", check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"{name} did not end within {time_limit:g} s; look for a loop that never ends") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ScriptError(f"the process that ran {name} ended with status {done.returncode}: {last}")
    report = dict(json.loads(lines[-1]))
    if "error" in report:
        raise ScriptError(f"{name}, {report['error']}")
    return report


def judge(report: Mapping[str, Any], cause: str) -> tuple[bool, str]:
    """Return whether a training run is healthy, and why; ``cause`` is its original fault."""
    allowed = (("steps", len(report["rates"]), STEPS), ("parameters", report["parameters"], PARAMETERS),
               ("target positions", report["targets"], TARGETS))  # fmt: skip
    for what, found, most in allowed:
        if found > most:
            return False, f"It has {found} {what}, the healthy training {most}: correct only the fault."
    score = report["score"]
    if not score >= SCORE:
        return False, f"It writes {score:.0%} of the held-out rows exactly; a healthy one writes {SCORE:.0%} or more."
    if CAUSES[cause].finding(report)[0]:
        return False, f"It writes {score:.0%} of the held-out rows exactly, but its fault can still be measured."
    if report["blank_score"] > 0.5:
        return False, "`write` gives the right rows even when all weights are 0: it must use the model."
    return True, f"It writes {score:.0%} of the held-out rows exactly."


def diagnose(script: BrokenScript, name: str, report: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether a cause is the planted one, and the evidence in the report for or against it.

    Raises
    ------
    LookupError
        If no cause has this name.
    """
    if name not in CAUSES:
        raise LookupError(f"there is no cause {name!r}; the causes are {', '.join(CAUSES)}")
    cause = CAUSES[name]
    supports, words = cause.finding(report)
    return name == script.cause, f"For it: {words}." if name == script.cause or supports else f"Against it: {words}."


@dataclass(frozen=True, kw_only=True)
class Progress(Options):
    """The broken scripts that a learner has diagnosed and fixed."""

    renamed: ClassVar[Mapping[str, str]] = {"healed": "fixed"}

    diagnosed: Sequence[int] = option((), "the scripts whose cause was named")
    fixed: Sequence[int] = option((), "the scripts that were fixed once")

    @classmethod
    def read(cls, folder: Path) -> Progress:
        """Return the progress in a learner's folder; an empty one if it is missing or damaged."""
        try:
            return cls.from_flat(read_json(folder / "clinic" / ".chart.json"))
        except (ValueError, OSError):
            return cls()

    @classmethod
    def note(cls, folder: Path, kind: str, number: int) -> Progress:
        """Add a script to the list ``kind`` of the progress in a learner's folder; return the progress."""
        path = folder / "clinic" / ".chart.json"
        with lock_of(path):
            progress = cls.read(folder)
            lists = {"diagnosed": progress.diagnosed, "fixed": progress.fixed}
            progress = cls(**(lists | {kind: sorted({*lists[kind], number})}))
            write_whole(path, (json.dumps(progress.flat(), indent=1) + "\n").encode())
        return progress
