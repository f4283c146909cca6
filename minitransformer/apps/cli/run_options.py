"""Options that several commands share: which run, which of its weights, and how to decode."""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import with_flags
from minitransformer.apps.cli.parser import path
from minitransformer.apps.cli.progress import note
from minitransformer.decoding import PAPER, SearchOptions
from minitransformer.options import OptionError
from minitransformer.sharding import ALONE
from minitransformer.training import WEIGHTS, RunFolder, TrainedRun, load


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the run and which of its weights."""
    parser.add_argument("run", type=path, help="a run folder of `minitransformer train` or `import`")
    parser.add_argument(
        "--weights",
        choices=WEIGHTS,
        help="average: of the last checkpoints, made by `minitransformer average`; mean: over the last steps; best: by "
        "the score during training; last: after the last step. By default the first of these that exists",
    )


def add_beam(parser: argparse.ArgumentParser) -> None:
    """Add the options of beam search."""
    for name, kind, metavar, text in (
        ("beam", int, "N", "number of hypotheses; 1 is greedy search"),
        ("alpha", float, "X", "length penalty, section 6.1"),
    ):
        default = getattr(PAPER, name)
        parser.add_argument(
            f"--{name}",
            type=kind,
            default=None,
            metavar=metavar,
            help=f"{text} (default: {default}; for a published model what its authors chose)",
        )


def check_beam(args: argparse.Namespace) -> None:
    """Raise a UsageError unless the given options of beam search are possible."""
    given = {name: getattr(args, name) for name in ("beam", "alpha") if getattr(args, name) is not None}
    try:
        SearchOptions.check(given)
    except OptionError as error:
        raise UsageError(with_flags(f"{error}", given).removeprefix(f"{SearchOptions.owner}: ")) from error
    if "beam" in given and not 1 <= getattr(args, "n_best", 1) <= args.beam:
        raise UsageError(f"--n-best must be from 1 to the beam, {args.beam}, found {args.n_best}")


def choose_beam(args: argparse.Namespace, trained: TrainedRun) -> None:
    """Set the options of beam search that were not given to those of the run; check their number of translations."""
    for name in ("beam", "alpha"):
        if getattr(args, name) is None:
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
    trained = load(RunFolder(args.run), getattr(args, "weights", None), note, getattr(args, "ranks", ALONE))
    if translates is not None:
        _ = trained.transformer if translates else trained.language_model  # raises a RunError
    return trained
