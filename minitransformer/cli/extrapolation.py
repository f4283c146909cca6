"""Measure models on sentences longer than in training.

Small models learn to repeat the symbol 4 positions back, with sinusoidal and with learned positions. They are tested
on sentences four times as long.
"""

from __future__ import annotations

import argparse
from functools import partial

from minitransformer.cli.results import add_arguments, run_experiment
from minitransformer.paper.extrapolation import SIZES, measure_extrapolation
from minitransformer.paper.report import extrapolation_text

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    return run_experiment(args, partial(measure_extrapolation, SIZES), extrapolation_text, "extrapolation_picture")
