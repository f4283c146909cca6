"""Table 3 of the paper, small: one thing is varied at a time, on a task that trains in half a minute.

The rows are the paper's, in its order, scaled to the base model of the task numbers (N 2, D 64, F 256, H 4): (A) heads,
with Dk and Dv such that their product with H stays; (B) the size of the keys; (C) the size of the model; (D) dropout
and label smoothing; (E) learned positions instead of sinusoidal ones. As in the paper, a row lists its differences
from the base.

With several seeds, each row is trained once with each, and its mean is compared with that of the base (see ``means``).

Source: Attention Is All You Need, section 6.2, table 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from minitransformer.apps.bench.report import fold, wrap
from minitransformer.apps.paper.means import compare_means, holm
from minitransformer.apps.paper.variations import Result
from minitransformer.files import read_toml
from minitransformer.runs import Configuration
from minitransformer.tasks import build


class Row(NamedTuple):
    """A row of the table: one model."""

    group: str
    """The paper's letter; empty for the base."""
    changes: Mapping[str, Any]
    """The differences from the base."""

    @property
    def name(self) -> str:
        """Its folder's name."""
        return "-".join([self.group or "base", *(f"{key}-{value}" for key, value in self.changes.items())])


_TABLE = read_toml(Path(__file__).with_suffix(".toml"))
ROWS = [Row(row.pop("group"), row) for row in _TABLE["rows"]]


def variations(rows: Sequence[Row], **base: Any) -> dict[str, Configuration]:
    """Return the configurations of rows, by the names of the rows.

    Parameters
    ----------
    rows : sequence of Row
        The rows.
    **base
        The options of all rows that differ from the recipe of the task numbers.

    Raises
    ------
    OptionError
        If an option is impossible.
    """
    return {row.name: Configuration.of_task(build("numbers"), **{**base, **row.changes}) for row in rows}


COLUMNS: dict[str, Callable[[Configuration], Any]] = {name: attrgetter(of) for name, of in _TABLE["columns"].items()}
"""What each column shows of a configuration."""


def format_table(results: Sequence[tuple[Row, Sequence[Result]]]) -> list[str]:
    """Return the table's lines, the heading first; the first row is the base, and equal values are left empty.

    What was measured is the mean over the seeds.
    """
    base = results[0][1][0].configuration
    lines = [["", *COLUMNS, "perplexity", "exact match", "parameters", "time"]]
    for row, found in results:
        configuration = found[0].configuration
        cells = [
            str(of(configuration)) if not row.group or of(configuration) != of(base) else "" for of in COLUMNS.values()
        ]
        lines.append(
            [
                f"({row.group})" if row.group else "base",
                *cells,
                f"{fmean(result.perplexity for result in found):.4f}",
                f"{100 * fmean(result.exact_match for result in found):.2f} %",
                f"{found[0].parameters:,}",
                f"{fmean(result.seconds for result in found):.0f} s",
            ]
        )
    return _aligned(lines)


MEASURES: tuple[tuple[str, int, Callable[[Result], float]], ...] = (
    ("exact match, %", 2, lambda result: 100 * result.exact_match),
    ("perplexity", 4, lambda result: result.perplexity),
)
"""Each with its decimals."""


def format_means(results: Sequence[tuple[Row, Sequence[Result]]]) -> list[str]:
    """Return each row's mean over the seeds, and its difference from the base: the first row."""
    seeds = len(results[0][1])
    words = (
        f"{seeds} seeds each: mean (min to max); the difference from the base, with its 95 % interval and p of Welch's "
        "t-test, corrected for the number of rows; detectable: the true difference that one such test finds, with "
        "p < 0.05, 4 times out of 5."
    )
    lines = wrap(words).splitlines()
    for measure, decimals, of in MEASURES:
        base = [of(result) for result in results[0][1]]
        others = [[of(result) for result in found] for row, found in results if row.group]
        corrected = iter(holm([compare_means(base, values).p for values in others]))
        cells = [["", measure, "difference", "p", "detectable"]]
        for row, found in results:
            values = [of(result) for result in found]
            mean, least, most = (f"{value:.{decimals}f}" for value in (fmean(values), min(values), max(values)))
            cells.append([_first_change(row), f"{mean} ({least} to {most})", "", "", ""])
            if row.group:
                d = compare_means(base, values)
                signed = [f"{value:+.{decimals}f}" for value in (d.mean, d.low, d.high)]
                cells[-1][2:] = [
                    f"{signed[0]} ({signed[1]} to {signed[2]})",
                    f"{next(corrected):.3f}",
                    f"{d.detectable:.{decimals}f}",
                ]
        lines += ["", *_aligned(cells)]
    return lines


def _first_change(row: Row) -> str:
    """Return what a row is about: ``"(A) n_heads 8"``."""
    return next((f"({row.group}) {name} {value}" for name, value in row.changes.items()), "base")


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text, in columns that end together, and in blocks if they are too wide."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    starts = accumulate(width + 2 for width in widths[:-1])
    rows = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return fold(rows, *starts)
