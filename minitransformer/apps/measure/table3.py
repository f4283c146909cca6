"""Table 3 of the paper, small: one thing is varied at a time, on a task that trains in half a minute.

The rows are the paper's, in its order, scaled to the base model of the task numbers (N 2, D 64, F 256, H 4): (A) heads,
with Dk and Dv such that their product with H stays; (B) the size of the keys; (C) the size of the model; (D) dropout
and label smoothing; (E) learned positions instead of sinusoidal ones. As in the paper, a row lists its differences
from the base.

With several seeds, each row is trained once with each, and its mean is compared with that of the base (see ``means``).

Source: Attention Is All You Need, section 6.2, table 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from minitransformer.apps.measure.means import compare_means, holm
from minitransformer.apps.measure.seeds import Result, train_variations
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
GROUPS = sorted({row.group for row in ROWS if row.group})
COLUMNS: dict[str, Callable[[Configuration], Any]] = {name: attrgetter(of) for name, of in _TABLE["columns"].items()}
"""What each column shows of a configuration."""
MEASURES = ("exact_match", "perplexity")
STEPS = 450


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


def measure_table3(
    groups: Collection[str], folder: Path, tell: Callable[[str], None], seeds: Sequence[int] = (0,), steps: int = STEPS
) -> dict[str, Any]:
    """Train the base and the rows of some groups with every seed, and compare each row with the base.

    Parameters
    ----------
    groups : collection of str
        Some of ``GROUPS``.
    folder : Path
        Where the runs are kept; what is there already is not trained again.
    tell : callable
        Called with each result.
    seeds : sequence of int
        The seeds.
    steps : int
        Training steps of each model. The weights are averaged over the last third, as in the recipe.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"seeds"`` and ``"rows"``, a list, the base first:
        each with ``"group"``, ``"changes"``, ``"columns"``, ``"parameters"``, for each seed ``"exact_match"``,
        ``"perplexity"`` and ``"seconds"``, and with several seeds the ``"differences"`` of the first two from the base,
        see ``compare_means``; here p is corrected for the number of rows.

    Raises
    ------
    ValueError
        If an option is impossible, or the folder holds other runs.
    Diverged
        If a loss is not a finite number.
    """
    wanted = [row for row in ROWS if not row.group or row.group in groups]
    options = {"steps": steps, "average_last": max(1, steps // 3), "evaluate_every": steps}
    found = train_variations(folder, variations(wanted, **options), seeds, tell)
    rows = [_row(row, found[row.name]) for row in wanted]
    if len(seeds) > 1:
        for measure in MEASURES:
            _compare(rows, measure)
    return {"seeds": list(seeds), "rows": rows}


def _row(row: Row, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "group": row.group,
        "changes": dict(row.changes),
        "columns": {name: of(results[0].configuration) for name, of in COLUMNS.items()},
        "parameters": results[0].parameters,
        "seconds": [result.seconds for result in results],
        **{measure: [getattr(result, measure) for result in results] for measure in MEASURES},
    }


def _compare(rows: Sequence[dict[str, Any]], measure: str) -> None:
    """Add the difference of each row from the first one."""
    base, *others = rows
    differences = [compare_means(base[measure], row[measure]) for row in others]
    corrected = holm([difference.p for difference in differences])
    for row, difference, p in zip(others, differences, corrected, strict=True):
        row.setdefault("differences", {})[measure] = difference._replace(p=p)._asdict()
