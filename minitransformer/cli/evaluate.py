"""Measure a trained model on its held-out pairs.

Prints the exact match, the token accuracy, and what it got wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from minitransformer.cli.train import percent
from minitransformer.training import RunFolder, evaluate, load

__all__ = ["add_arguments", "run"]

SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run."""
    parser.add_argument("run", type=Path, help="a run folder, as `minitransformer train` made it")


def run(args: argparse.Namespace) -> int:
    """Print the scores and some of the mistakes."""
    folder = RunFolder(args.run)
    trained = load(folder)
    pairs = folder.held_out()
    scores = evaluate(trained.model, trained.task, trained.source, trained.target, pairs)
    wrong = [sample for sample in scores.samples if not sample.right]
    for sample in wrong[:SHOWN]:
        print(f"✗ {sample.source}  ->  {sample.found}\n    it should be  {sample.wanted}")
    if len(wrong) > SHOWN:
        print(f"... and {len(wrong) - SHOWN} more")
    print(f"step {trained.checkpoint.state['step']:,} of {trained.task.title}")
    print(f"exact match on {len(pairs):,} held-out {trained.task.noun}: {percent(scores.exact_match, 2)}")
    print(f"token accuracy, given all tokens before: {percent(scores.token_accuracy, 3)}")
    return 0
