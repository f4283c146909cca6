"""Measure how far back each kind of layer learns to look.

Small models, each with one kind of layer, are trained to repeat the symbol L positions back, for several L. Takes about
half an hour.
"""

from __future__ import annotations

import argparse
from functools import partial

from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.paper.recall import measure_recall
from minitransformer.apps.paper.recall_model import RecallSizes
from minitransformer.apps.paper.report import recall_text


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    return run_experiment(args, partial(measure_recall, RecallSizes()), recall_text, "recall_picture")
