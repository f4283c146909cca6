"""Measure what came after the paper, one change of the model or its training at a time.

Trains models with pre-norm, RMSNorm, GELU, SwiGLU, other positions, fewer key heads, linear decay or weight decay, at
equal parameters and equal training time, with five seeds, and compares them with the paper's choices.
Models that are already trained are reused. On one core, five seeds take 12 minutes on numbers and 33 on characters.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.paper.changes import measure_changes
from minitransformer.apps.paper.report import changes_text
from minitransformer.arrays import backend


def run(args: argparse.Namespace) -> int:
    """Train what is not trained yet, then print, write and draw the comparison."""
    backend()
    folder = getattr(args, "out", Path("runs", "changes", args.task))

    def measure(tell: Callable[[str], None]) -> dict[str, Any]:
        with refusing(args):
            return measure_changes(args.task, folder, tell, args.seeds, getattr(args, "steps", None))

    return run_experiment(args, measure, changes_text, "changes_picture")
