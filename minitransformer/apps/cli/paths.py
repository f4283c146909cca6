"""Measure the path lengths of each kind of layer.

The second and third columns of the paper's Table 1: the number of sequential operations, and the longest path between
an input and an output. Both are counted in recorded graphs. Takes a few seconds.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.paper.paths import measure_paths
from minitransformer.apps.paper.report import paths_text


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    return run_experiment(args, measure_paths, paths_text, "paths_picture")
