"""Train a Transformer.

Without arguments: numbers in words from English to German, on the CPU, in about a minute. On your own text: `train text
--source FILE --target FILE`. A decoder alone, which learns to write Python: `train characters`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from minitransformer import runs, training
from minitransformer.apps.cli import progress
from minitransformer.apps.cli.configuration import add_arguments as add_arguments
from minitransformer.apps.cli.configuration import read_configuration
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.own_parts import chosen_parts, compare, draw_parts, in_place, try_own_parts
from minitransformer.apps.learn.model import Parts, Trial, record
from minitransformer.arrays import backend
from minitransformer.runs import RunFolder
from minitransformer.training import Trainer


def run(args: argparse.Namespace) -> int:
    """Train, show the progress, and write a run folder."""
    backend()  # a backend that cannot run is refused before anything else
    choice, group = chosen_parts(args), args.group
    with refusing(args):
        if args.overwrite and not hasattr(args, "out"):
            raise ValueError("found --overwrite without --out, expected both: which run should be replaced?")
        start = group.broadcast(lambda: runs.load(args.start)) if hasattr(args, "start") else None
        if start and choice:
            raise ValueError("found --from and --with, expected one of them")
        configuration = read_configuration(args, start)
        if hasattr(args, "out"):
            group.broadcast(lambda: training.check_free(args.out, args.overwrite))
            if start and Path(os.path.realpath(args.out)) in group.broadcast(lambda: runs.starts(args.start)):
                raise ValueError(f"found {args.out} in --out, which --from {args.start} needs; choose another --out")
        trainer = Trainer(configuration, group=group, fork=True, start=start)
    trial = try_own_parts(choice, trainer, args.anyway) if choice else None
    out = group.broadcast(lambda: args.out if hasattr(args, "out") else training.fresh_folder(configuration.task))
    if trial is None:
        return _train(trainer, out, args.overwrite)
    parts, wrong = trial.parts, trial.wrong
    tokenisers = trainer.source, trainer.target
    with in_place(parts):
        trainer = Trainer(configuration, tokenisers, fork=True)
        status = _train(trainer, out, args.overwrite, parts, trial)
    if not status and trial.own_gradients and parts.functions.keys() == trial.used:
        print("every part is yours: no backward pass of the engine was executed")
    if wrong and status != progress.INTERRUPTED:
        print(f"\nagain, with the engine's functions for {', '.join(sorted(wrong))}\n")
        right = training.fresh_folder(f"{out.name}-without-the-mistake", out.parent)
        parts = parts.without(wrong)
        with in_place(parts):
            status = _train(Trainer(trainer.configuration, tokenisers, fork=True), right, False, parts, trial)
        compare(RunFolder(out), RunFolder(right), sorted(wrong))
    return status


def _train(trainer: Trainer, out: Path, overwrite: bool, parts: Parts | None = None, trial: Trial | None = None) -> int:
    with runs.lock_folder(out, trainer.group):
        folder = trainer.group.broadcast(
            lambda: training.create_run(out, trainer.configuration, trainer.corpus, overwrite)
        )
        if parts and trial:
            record(parts, out)
            if trainer.step_seconds is None and trial.together:
                trainer.step_seconds = trial.together * trainer.configuration.training.accumulate
            draw_parts(parts, trial, folder)
        return progress.train(trainer, folder, "train")
