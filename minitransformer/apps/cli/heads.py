"""Measure what each attention head of a trained model does.

For each head, on held-out data: how far it looks, the weight on neighbouring positions, its entropy, and how much the
tokens decide. For each layer: how different its heads are, compared with shuffled heads and with the initial weights.
"""

from __future__ import annotations

import argparse
from functools import partial

from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.cli.run_options import load_chosen
from minitransformer.apps.paper.heads import held_out_groups, measure_heads
from minitransformer.apps.paper.report import heads_text
from minitransformer.runs import RunFolder


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    trained = load_chosen(args, translates=None)
    with refusing(args):
        groups = held_out_groups(trained, RunFolder(args.run), args.pairs)
    return run_experiment(args, partial(measure_heads, trained, groups), heads_text, "heads_picture")
