"""Train the models of the paper's Table 3, scaled down, and print it.

Varies heads, sizes, dropout, label smoothing and positions, one at a time, on numbers in words from English to German.
Takes half a minute a row and seed. With several seeds, each row's mean is compared with that of the base. Models that
are already trained are reused.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minitransformer.arrays import backend
from minitransformer.cli.errors import UsageError
from minitransformer.cli.options import describe
from minitransformer.cli.parser import path
from minitransformer.cli.progress import note
from minitransformer.decoding import Diverged
from minitransformer.paper.table3 import ROWS, Result, Row, format_means, format_table, measure_row

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how long each model is trained, and which rows."""
    letters = sorted({row.group for row in ROWS if row.group})
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"some of {', '.join(letters)}; by default all")
    parser.add_argument("--out", type=path, default=Path("runs/table3"), help="the folder of the run folders")
    parser.add_argument("--steps", type=int, default=450, help="training steps of each model")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0], metavar="SEED",
        help="seeds of the data, the initial weights and dropout: each row is trained once with each",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train what is not trained yet, and print the table."""
    backend()
    known = {row.group for row in ROWS if row.group}
    unknown = [letter for letter in args.rows if letter.upper() not in known]
    if unknown:
        raise UsageError(f"there is no row {unknown[0]!r}; the rows are {', '.join(sorted(known))}")
    if repeated := [seed for seed in args.seeds if args.seeds.count(seed) > 1]:
        raise UsageError(f"--seeds: found {repeated[0]} more than once, expected different seeds")
    wanted = {letter.upper() for letter in args.rows} or known
    rows = [row for row in ROWS if not row.group or row.group in wanted]
    # As many steps are averaged as in the recipe, relative to all, and nothing is measured on the way.
    last = max(1, args.steps // 3)
    results: list[tuple[Row, list[Result]]] = [(row, []) for row in rows]
    plan = [(row, found, seed) for seed in args.seeds for row, found in results]
    try:
        for i, (row, found, seed) in enumerate(plan):
            print(f"{i + 1} of {len(plan)}: {row.name}, seed {seed}", file=sys.stderr, flush=True)
            options = {"steps": args.steps, "seed": seed, "average_last": last, "evaluate_every": args.steps}
            found.append(measure_row(row, args.out, note, **options))
    except ValueError as error:
        raise UsageError(describe(error, args)) from error
    except Diverged as error:
        print(f"minitransformer table3: {error} of {row.name}, seed {seed}", file=sys.stderr)
        return 1
    for line in format_table(results):
        print(line)
    if len(args.seeds) > 1:
        print("", *format_means(results), sep="\n")
    return 0
