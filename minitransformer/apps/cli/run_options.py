"""Options that several commands share: which run, which of its weights, and how to decode."""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError, note
from minitransformer.apps.cli.options import with_flags
from minitransformer.decoding import PAPER, SearchOptions
from minitransformer.options import OptionError
from minitransformer.parallel import SINGLE_PROCESS
from minitransformer.runs import (
    WEIGHTS,
    RunFolder,
    TrainedRun,
    load,
)

CHOICES = {"weights": WEIGHTS}
WORDS = {"beam": PAPER.beam, "alpha": PAPER.alpha}


def check_beam(args: argparse.Namespace) -> None:
    """Raise a UsageError unless the given options of beam search are possible."""
    given = {name: getattr(args, name) for name in ("beam", "alpha") if hasattr(args, name)}
    try:
        SearchOptions.check(given)
    except OptionError as error:
        raise UsageError(with_flags(f"{error}", given).removeprefix(f"{SearchOptions.owner}: ")) from error
    if "beam" in given and getattr(args, "n_best", 1) > args.beam:
        raise UsageError(f"--n-best must be at most the beam, {args.beam}, found {args.n_best}; or widen --beam")


def choose_beam(args: argparse.Namespace, trained: TrainedRun) -> None:
    """Set the options of beam search that were not given to those of the run; check their number of translations."""
    for name in ("beam", "alpha"):
        if not hasattr(args, name):
            setattr(args, name, getattr(trained.options.search, name))
    check_beam(args)


def load_chosen(args: argparse.Namespace, translates: bool | None = True) -> TrainedRun:
    """Load the weights that were asked for; a damaged checkpoint is named.

    Parameters
    ----------
    args : argparse.Namespace
        The arguments of the command.
    translates : bool, optional
        Whether the command is for models that translate, or for those that continue texts; None for both. Other runs
        are refused.
    """
    trained = load(RunFolder(args.run), getattr(args, "weights", None), note, getattr(args, "group", SINGLE_PROCESS))
    if translates is not None:
        _ = trained.transformer if translates else trained.language_model  # raises a RunError
    return trained
