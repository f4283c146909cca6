"""Measure kinds of positions on sentences longer than in training.

Models with sinusoidal, learned and rotary positions, with ALiBi and without positions learn three tasks on sentences of
up to 32 tokens and are tested on up to 128: recall at a distance, copying, and lookup by content. Further tests tell
why a model fails. Takes some minutes; what is measured already is reused. --layers compares kinds of layer instead.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.results import run_experiment
from minitransformer.apps.paper.position_tasks import TASKS
from minitransformer.apps.paper.positions import POSITIONS, PositionsSizes, measure_positions
from minitransformer.apps.paper.recall import LONGER, measure_extrapolation
from minitransformer.apps.paper.report import extrapolation_text, positions_text

OUT = Path("runs/extrapolation")
STEPS = PositionsSizes.steps
CHOICES = {"tasks": TASKS, "positions": POSITIONS}
WORDS = {"steps": STEPS, "out": OUT}


def check(args: argparse.Namespace) -> None:
    """Raise a UsageError unless the arguments go together."""
    given = [f"--{name}" for name in ("tasks", "positions", "steps", "out") if hasattr(args, name)]
    if args.layers and given:
        raise UsageError(f"--layers has its own models, found {given[0]} too; leave one out")
    if repeated := [seed for seed in args.seeds if args.seeds.count(seed) > 1]:
        raise UsageError(f"--seeds: found {repeated[0]} more than once, expected different seeds")


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    check(args)
    if args.layers:
        measure = partial(measure_extrapolation, LONGER, seeds=args.seeds)
        return run_experiment(args, measure, extrapolation_text, "extrapolation_picture")
    chosen: dict[str, Any] = {name: list(dict.fromkeys(getattr(args, name, known))) for name, known in CHOICES.items()}
    sizes, folder = PositionsSizes(steps=getattr(args, "steps", STEPS)), getattr(args, "out", OUT)
    compare = partial(measure_positions, sizes, **chosen, seeds=args.seeds, folder=folder)
    return run_experiment(args, compare, positions_text, "positions_picture")
