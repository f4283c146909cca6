"""Train a Transformer.

Without arguments: numbers in words from English to German, on the CPU, in about a minute. On text of your own: `train
text --source FILE --target FILE`.
"""

from __future__ import annotations

import argparse

from minitransformer.arrays import backend
from minitransformer.cli import progress
from minitransformer.cli.errors import UsageError
from minitransformer.cli.options import add_options, describe, read_configuration
from minitransformer.cli.parser import path
from minitransformer.training import RunFolder, Trainer, lock_folder

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the run goes, and all that it depends on."""
    parser.add_argument(
        "--out", type=path, default=argparse.SUPPRESS, help="run folder to make; by default runs/TASK, or a fresh name"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run that --out holds already")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Train, show how it goes, and leave a run folder behind."""
    backend()  # a backend that cannot run is refused before anything else
    try:
        if args.overwrite and not hasattr(args, "out"):
            raise ValueError("found --overwrite without --out, expected both: which run is to be replaced?")
        configuration = read_configuration(args)
        if hasattr(args, "out"):
            RunFolder(args.out).refuse(args.overwrite)
        trainer = Trainer(configuration)
    except ValueError as error:
        raise UsageError(describe(error, args)) from error
    folder = RunFolder(args.out) if hasattr(args, "out") else RunFolder.fresh(configuration.task)
    with lock_folder(folder.path):
        folder.create(trainer.configuration, trainer.corpus, args.overwrite)
        return progress.train(trainer, folder, "train")
