"""Measure what each attention head of a trained model does.

For each head, on held-out data: how far it looks, the weight on neighbouring positions, its entropy, and how much the
tokens decide. For each layer: how different its heads are, compared with shuffled heads and with the initial weights.
"""

from __future__ import annotations

import argparse
from functools import partial

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.own_parts import with_parts_of_run
from minitransformer.apps.cli.parser import add_listed
from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.cli.run_options import add_run, load_chosen
from minitransformer.apps.paper.heads import held_out_groups, measure_heads
from minitransformer.apps.paper.report import heads_text
from minitransformer.training import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, how many pairs, and where the results go."""
    add_run(parser)
    add_listed(parser, "with", "heads", "results")


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    if args.pairs < 2:
        raise UsageError(f"--pairs must be at least 2, found {args.pairs}")
    trained = load_chosen(args, translates=None)
    try:
        groups = held_out_groups(trained, RunFolder(args.run), args.pairs)
    except ValueError as error:
        raise UsageError(f"{error}") from error
    return run_experiment(args, partial(measure_heads, trained, groups), heads_text, "heads_picture")
