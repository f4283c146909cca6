"""Train a Transformer.

Without arguments: numbers in words from English to German, on the CPU, in about a minute. On your own text: `train text
--source FILE --target FILE`. A decoder alone, which learns to write Python: `train characters`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from minitransformer.apps.cli import progress
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import add_options, describe, read_configuration
from minitransformer.apps.cli.own_parts import (
    add_training_options,
    chosen_parts,
    compare,
    draw_parts,
    in_place,
    try_own_parts,
)
from minitransformer.apps.cli.parser import add_listed
from minitransformer.apps.cli.processes import add_distributed
from minitransformer.apps.learn.model import Parts, Trial, record
from minitransformer.arrays import backend
from minitransformer.training import RunFolder, Trainer, check_free, create_run, fresh_folder, lock_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the run goes, and all that it depends on."""
    add_listed(parser, "train")
    add_training_options(parser)
    add_distributed(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Train, show the progress, and write a run folder."""
    backend()  # a backend that cannot run is refused before anything else
    choice, ranks = chosen_parts(args), args.ranks
    try:
        if args.overwrite and not hasattr(args, "out"):
            raise ValueError("found --overwrite without --out, expected both: which run should be replaced?")
        configuration = read_configuration(args)
        if hasattr(args, "out"):
            ranks.first(lambda: check_free(args.out, args.overwrite))
        trainer = Trainer(configuration, ranks=ranks, fork=True)
    except ValueError as error:
        raise UsageError(describe(error, args)) from error
    trial = try_own_parts(choice, trainer, args.anyway) if choice else None
    out = ranks.first(lambda: args.out if hasattr(args, "out") else fresh_folder(configuration.task))
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
        right = fresh_folder(f"{out.name}-without-the-mistake", out.parent)
        parts = parts.without(wrong)
        with in_place(parts):
            status = _train(Trainer(trainer.configuration, tokenisers, fork=True), right, False, parts, trial)
        compare(RunFolder(out), RunFolder(right), sorted(wrong))
    return status


def _train(trainer: Trainer, out: Path, overwrite: bool, parts: Parts | None = None, trial: Trial | None = None) -> int:
    with lock_folder(out, trainer.ranks):
        folder = trainer.ranks.first(lambda: create_run(out, trainer.configuration, trainer.corpus, overwrite))
        if parts and trial:
            record(parts, out)
            if trainer.step_seconds is None and trial.together:
                trainer.step_seconds = trial.together * trainer.configuration.training.accumulate
            draw_parts(parts, trial, folder)
        return progress.train(trainer, folder, "train")
