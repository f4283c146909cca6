"""Compares gradient checkers on the corpus: ``python tests/checkers/compare.py`` prints the tables.

The other checkers are optional: install ``torch``, ``jax`` and ``autograd`` to include them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(Path(__file__).parents[1] / "gallery"), str(Path(__file__).parents[2])]

import numpy as np
from adapters import ACCEPTED, CANNOT_RUN, CHECKERS, KINK, REJECTED, TORCH, UNDECIDED, quietly
from corpus import CORPUS
from from_gallery import NO_PLAIN_FORM
from reported import REPORTED
from sample import Sample

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "checkers.md"
START, END = "<!-- {}: start -->", "<!-- {}: end -->"
SECONDS = 60
"""How long a checker may take for one function."""
REPEATS, SHORT = 3, 0.03
"""A check of less than so many seconds is repeated, and the fastest of the repetitions counts."""


@dataclass(frozen=True)
class Outcome:
    """What a checker says about a sample."""

    name: str
    right: bool
    kink: bool
    verdict: str
    reason: str
    seconds: float
    calls: int
    """How often the checker called the function."""


def run(name: str, samples: Iterable[Sample], dtype: str, repeats: int = REPEATS) -> list[Outcome]:
    """Run a checker on samples in a precision."""
    return [judge(name, sample, dtype, repeats) for sample in samples]


def judge(name: str, sample: Sample, dtype: str, repeats: int) -> Outcome:
    """Run a checker on a sample; repeat a short one for a reliable time."""
    calls = 0

    def forward(*inputs: Any) -> Any:
        nonlocal calls
        calls += 1
        return sample.forward(*inputs)

    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < SHORT):
        calls = 0
        np.random.seed(0)  # two of the checkers draw their directions from the global generator
        start = time.process_time()
        with limit(SECONDS):
            verdict, reason = quietly(CHECKERS[name].check, forward, sample.backward, sample.at(dtype))
        times.append(time.process_time() - start)
    return Outcome(sample.name, sample.right, sample.kink, verdict, reason[:300], min(times), calls)


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in what takes too long."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def version(package: str) -> str:
    """Return the version of an installed package."""
    return importlib.metadata.version(package)


def compare(names: list[str], dtypes: list[str]) -> dict[str, dict[str, list[Outcome]]]:
    """Run the checkers in each precision that they know."""
    results: dict[str, dict[str, list[Outcome]]] = {dtype: {} for dtype in dtypes}
    for dtype in dtypes:
        for name in names:
            if dtype in CHECKERS[name].dtypes:
                start = time.perf_counter()
                results[dtype][name] = run(name, [s for s in CORPUS if dtype in s.dtypes], dtype)
                print(f"{dtype}: {name} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    return results


def row(name: str, outcomes: list[Outcome], torch: list[Outcome]) -> str:
    """Return a line of the table of a precision."""
    judged = [o for o in outcomes if o.verdict != CANNOT_RUN]
    wrong, right = [o for o in judged if not o.right], [o for o in judged if o.right]
    found = Counter(UNDECIDED if o.verdict == KINK and not o.kink else o.verdict for o in right)
    times = {o.name: o.seconds for o in torch}
    ratios = [[o.seconds / times[o.name] for o in part if times.get(o.name)] for part in (right, wrong)]
    cells = [
        name,
        f"{sum(o.verdict == REJECTED for o in wrong)} of {len(wrong)}" if wrong else "none",
        f"{found[ACCEPTED]} of {len(right)}",
        str(found[KINK]),
        str(found[UNDECIDED]),
        str(found[REJECTED]),
        str(len(outcomes) - len(judged)),
        *(f"{statistics.median(part):.2f}" if part else "" for part in ratios),
        f"{statistics.median(o.calls for o in judged):.0f}" if judged else "",
    ]
    return f"| {' | '.join(cells)} |"


def tables(results: dict[str, dict[str, list[Outcome]]]) -> str:
    """Return the tables as Markdown: one for each precision, and one of the reported cases."""
    lines = []
    for dtype, by_checker in results.items():
        lines += [
            f"### {dtype}",
            "",
            "| checker | wrong rejected | right accepted | kink reported | undecided | right called wrong | cannot run "
            "| time for right ones | time for wrong ones | calls |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *(row(name, outcomes, by_checker.get(TORCH, [])) for name, outcomes in by_checker.items()),
            "",
        ]
    names = [name for name in CHECKERS if any(name in by_checker for by_checker in results.values())]
    lines += ["### Reported cases", "", f"| case | precisions | {' | '.join(names)} | difficulty |"]
    lines += ["|---|---|" + "---|" * (len(names) + 1)]
    for sample in REPORTED:
        dtypes = [dtype for dtype in sample.dtypes if dtype in results]
        mistaken = REJECTED if sample.right else ACCEPTED
        cells = [
            ", ".join(
                dtype.removeprefix("float")
                for dtype in dtypes
                if (sample.name, mistaken) in [(o.name, o.verdict) for o in results[dtype].get(name, [])]
            )
            for name in names
        ]
        bits = ", ".join(dtype.removeprefix("float") for dtype in dtypes)
        label = "" if sample.right else " (wrong)"
        lines.append(f"| [{sample.name}]({sample.source}){label} | {bits} | {' | '.join(cells)} | {sample.note} |")
    return "\n".join(lines) + "\n"


def counts() -> str:
    """Return a table of what the corpus consists of, as Markdown."""
    dtypes = ("float64", "float32", "float16")
    lines = [f"| functions | label | {' | '.join(dtypes)} |", "|---|---|---|---|---|"]
    kinds = {
        ("gallery", False): "the [gallery of wrong gradients](gallery-of-wrong-gradients.md), "
        f"without {len(NO_PLAIN_FORM)} entries that have no plain form",
        ("twin", False): "the right ones of the next line, with every entry of the gradient a quarter too large",
        ("hard", True): "hard to recognise as right: extreme scales, cancellation, long sums, few digits, kinks, ties, "
        "masks, norms at 0, softmax at ±1e4",
        ("reported", True): "reported by users of gradient checkers",
        ("reported", False): "reported by users of gradient checkers",
    }
    for (group, right), text in kinds.items():
        chosen = [s for s in CORPUS if (s.group, s.right) == (group, right)]
        numbers = [str(sum(dtype in s.dtypes for s in chosen)) for dtype in dtypes]
        lines.append(f"| {text} | {'right' if right else 'wrong'} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def mistakes(results: dict[str, dict[str, list[Outcome]]]) -> str:
    """Return the samples that each checker judges wrongly."""
    lines = []
    for dtype, by_checker in results.items():
        for name, outcomes in by_checker.items():
            for o in outcomes:
                fine = {ACCEPTED, KINK} if o.kink else {ACCEPTED} if o.right else {REJECTED}
                if o.verdict not in fine:
                    lines.append(f"{dtype}, {name}, {o.verdict}: {o.name} {o.reason[:100]!r}")
    return "\n".join(lines)


def replace(text: str, name: str, content: str) -> str:
    """Return a document with other content between two marks."""
    start, end = START.format(name), END.format(name)
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{DOCUMENT.name} has no {start} with an {end} behind it")
    return f"{before}{start}\n\n{content}\n{end}{after}"


def machine() -> str:
    """Return what was compared, and where."""
    processor = "an unknown processor"
    if (info := Path("/proc/cpuinfo")).exists():
        models = [line.partition(": ")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
        processor = models[0] if models else processor
    others = sorted({checker.package for checker in CHECKERS.values()} - {"minitransformer", "numpy"})
    versions = [f"{name} {version(name)}" for name in ["numpy", *others] if importlib.util.find_spec(name)]
    return f"Measured with {', '.join(versions)}, with one thread, on this processor: {processor}.\n"


def main() -> None:
    """Compare the checkers that are installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/checkers.md")
    parser.add_argument("--verbose", action="store_true", help="print what each checker judges wrongly")
    parser.add_argument("--checkers", nargs="*", default=[*CHECKERS], help="the checkers; all by default")
    parser.add_argument("--dtypes", nargs="*", default=["float64", "float32", "float16"], help="the precisions")
    args = parser.parse_args()
    names = [name for name in args.checkers if importlib.util.find_spec(CHECKERS[name].package)]
    for name in {*args.checkers} - {*names}:
        print(f"{name}: left out; it needs {CHECKERS[name].package}", file=sys.stderr)
    results = compare(names, args.dtypes)
    text = tables(results)
    print(text)
    if args.verbose:
        print(mistakes(results))
    if args.write:
        document = DOCUMENT.read_text("utf-8")
        for mark, content in (("counts", counts()), ("tables", f"{machine()}\n{text}")):
            document = replace(document, mark, content)
        DOCUMENT.write_text(document, "utf-8")


if __name__ == "__main__":
    main()
