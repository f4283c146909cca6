"""Compares gradient checkers on the corpus: ``python tests/checkers/compare.py`` prints the tables.

The other checkers are optional: install ``torch``, ``jax`` and ``autograd`` to include them. Two of them see something
else than the corpus holds. PyTorch sums a gradient of broadcast shape itself, so a missing sum is no mistake there. JAX
hands copies to the functions, so it cannot see that one writes into ``d_y``.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "gallery"), str(Path(__file__).parents[2])]

import numpy as np
from adapters import ACCEPTED, CHECKERS, REJECTED, UNDECIDED, quietly
from corpus import CORPUS
from from_gallery import NO_PLAIN_FORM
from reported import NOT_READ, REPORTED
from sample import Sample

PAGE = Path(__file__).parents[2] / "docs" / "checkers.md"
START, END = "<!-- tables: start -->", "<!-- tables: end -->"
OURS = next(iter(CHECKERS))


@dataclass(frozen=True)
class Outcome:
    """What a checker says about a sample."""

    sample: Sample
    verdict: str
    reason: str
    seconds: float
    calls: int
    """How often the checker called the function."""


def run(name: str, samples: Iterable[Sample], dtype: str) -> list[Outcome]:
    """Run a checker on samples in a precision."""
    checker, _ = CHECKERS[name]
    outcomes = []
    for sample in samples:
        calls = 0

        def forward(*inputs: Any, sample: Sample = sample) -> Any:
            nonlocal calls
            calls += 1
            return sample.forward(*inputs)

        inputs = sample.at(dtype)
        np.random.seed(0)  # two of the checkers draw their directions from the global generator
        start = time.process_time()
        verdict, reason = quietly(checker, forward, sample.backward, inputs)
        outcomes.append(Outcome(sample, verdict, reason, time.process_time() - start, calls))
    return outcomes


def row(name: str, outcomes: list[Outcome]) -> str:
    """Return a line of the table of a precision."""
    wrong = [o for o in outcomes if not o.sample.right]
    right = [o.verdict for o in outcomes if o.sample.right]
    cells = [
        name,
        f"{sum(o.verdict == REJECTED for o in wrong)} of {len(wrong)}" if wrong else "none",
        f"{right.count(ACCEPTED)} of {len(right)}",
        str(right.count(UNDECIDED)),
        str(right.count(REJECTED)),
        f"{1e3 * statistics.median(o.seconds for o in outcomes):.1f}",
        f"{statistics.median(o.calls for o in outcomes):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def tables(results: dict[str, dict[str, list[Outcome]]]) -> str:
    """Return the tables as Markdown: one for each precision, and one of the reported cases."""
    lines = []
    for dtype, by_checker in results.items():
        lines += [
            f"### {dtype}",
            "",
            "| checker | wrong gradients rejected | right gradients accepted | left undecided | called wrong "
            "| median CPU time (ms) | median calls |",
            "|---|---|---|---|---|---|---|",
            *(row(name, outcomes) for name, outcomes in by_checker.items()),
            "",
        ]
    lines += ["### Reported cases", "", f"| case | gradient | precision | {' | '.join(CHECKERS)} |"]
    lines += ["|---|---|---|" + "---|" * len(CHECKERS)]
    for sample in REPORTED:
        for dtype in sample.dtypes:
            verdicts = [
                next((o.verdict for o in results.get(dtype, {}).get(name, []) if o.sample is sample), "not run")
                for name in CHECKERS
            ]
            link = f"[{sample.name}]({sample.source})"
            label = "right" if sample.right else "wrong"
            lines.append(f"| {link} | {label} | {dtype} | {' | '.join(verdicts)} |")
    return "\n".join(lines) + "\n"


def mistakes(results: dict[str, dict[str, list[Outcome]]]) -> str:
    """Return the samples that each checker judges wrongly."""
    lines = []
    for dtype, by_checker in results.items():
        for name, outcomes in by_checker.items():
            for o in outcomes:
                if o.verdict == (REJECTED if o.sample.right else ACCEPTED):
                    lines.append(f"{dtype}, {name}, {o.verdict}: {o.sample.name} {o.reason[:150]!r}")
    return "\n".join(lines)


def main() -> None:
    """Compare the checkers that are installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/checkers.md")
    parser.add_argument("--verbose", action="store_true", help="print what each checker judges wrongly")
    parser.add_argument("--checkers", nargs="*", default=[*CHECKERS], help="the checkers; all by default")
    parser.add_argument("--dtypes", nargs="*", default=["float64", "float32", "float16"], help="the precisions")
    args = parser.parse_args()
    names = [name for name in args.checkers if importlib.util.find_spec(CHECKERS[name][1])]
    for name in args.checkers:
        if name not in names:
            print(f"{name}: left out; it needs {CHECKERS[name][1]}", file=sys.stderr)
    results: dict[str, dict[str, list[Outcome]]] = {dtype: {} for dtype in args.dtypes}
    for dtype in args.dtypes:
        for name in names:
            print(f"{dtype}: {name}", file=sys.stderr)
            results[dtype][name] = run(name, [s for s in CORPUS if dtype in s.dtypes], dtype)
    text = tables(results)
    print(text)
    if args.verbose:
        print(mistakes(results))
    print(f"{len(NO_PLAIN_FORM)} entries of the gallery have no plain form; {len(NOT_READ)} threads could not be read.")
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
