"""Measure the paper's Table 1 and print it.

For each kind of layer: operations, sequential operations and path length, in theory and as counted while the layers of
this package run. The costs that the paper states beside the table are measured too: separable convolutions, many heads,
self-attention and recurrence. Takes about 20 seconds on the CPU.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.paper.report import table1_text
from minitransformer.apps.paper.table1 import measure_table1
from minitransformer.arrays import backend


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    if backend() != "numpy":
        raise UsageError(
            f"operations are counted and timed on the processor, found the array library {backend()}; choose numpy"
        )
    return run_experiment(args, measure_table1, table1_text, "table1_picture")
