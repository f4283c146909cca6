"""Train the models of the paper's Table 3, scaled down, and print it.

Varies heads, sizes, dropout, label smoothing and positions, one at a time, on numbers in words from English to German.
Takes half a minute per row and seed. With several seeds, each row's mean is compared with that of the base. Models that
are already trained are reused.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.results import tell
from minitransformer.apps.paper.table3 import ROWS, format_means, format_table, variations
from minitransformer.apps.paper.variations import train_variations
from minitransformer.arrays import backend

GROUPS = sorted({row.group for row in ROWS if row.group})
WORDS = {"letters": ", ".join(GROUPS)}


def run(args: argparse.Namespace) -> int:
    """Train what is not trained yet, and print the table."""
    backend()
    unknown = [letter for letter in args.rows if letter.upper() not in GROUPS]
    if unknown:
        raise UsageError(f"there is no row {unknown[0]!r}; the rows are {', '.join(GROUPS)}")
    wanted = {letter.upper() for letter in args.rows} or GROUPS
    rows = [row for row in ROWS if not row.group or row.group in wanted]
    # As many steps are averaged as in the recipe, relative to all, and nothing is measured on the way.
    last = max(1, args.steps // 3)
    options = {"steps": args.steps, "average_last": last, "evaluate_every": args.steps}
    with refusing(args):
        found = train_variations(args.out, variations(rows, **options), args.seeds, tell)
    results = [(row, found[row.name]) for row in rows]
    print(*format_table(results), sep="\n")
    if len(args.seeds) > 1:
        print("", *format_means(results), sep="\n")
    return 0
