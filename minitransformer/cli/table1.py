"""Measure the paper's Table 1 and print it.

What each kind of layer costs, how many steps have to wait for one another, and how far apart positions are: theory
beside what is counted while the layers of this package run. On the processor; a quarter of a minute.
"""

from __future__ import annotations

import argparse

from minitransformer.arrays import backend
from minitransformer.cli.errors import UsageError
from minitransformer.cli.results import add_arguments, run_experiment
from minitransformer.paper.report import table1_text
from minitransformer.paper.table1 import measure_table1

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    if backend() != "numpy":
        raise UsageError(
            f"operations are counted and timed on the processor, found the array library {backend()}; choose numpy"
        )
    return run_experiment(args, measure_table1, table1_text, "table1_picture")
