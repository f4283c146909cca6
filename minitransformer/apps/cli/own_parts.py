"""A learner's own functions in the model: the options, and the check before training."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import NamedTuple

from minitransformer.apps.cli.errors import UsageError, note
from minitransformer.apps.cli.model_drawing import draw_model
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.progress import percent
from minitransformer.apps.learn import find, find_folder, model
from minitransformer.apps.learn.child import Ended
from minitransformer.apps.learn.model import PARTS, Box, Parts, Setting, Trial
from minitransformer.arrays import backend
from minitransformer.console import fill
from minitransformer.data import all_batches
from minitransformer.options import fault_of_path
from minitransformer.parallel import SINGLE_PROCESS
from minitransformer.runs import RunFolder
from minitransformer.training import Trainer


class Choice(NamedTuple):
    """What the command line asks for."""

    folder: Path
    """The learner's."""
    parts: set[str]
    """The parts that may be the learner's."""
    solved: bool = False
    """Whether the engine's functions replace parts that are wrong."""


def chosen_parts(args: argparse.Namespace) -> Choice | None:
    """Return the parts that the command line asks for; None without ``--with``."""
    if not hasattr(args, "own"):
        for name in ("but", "anyway", "solved"):
            if getattr(args, name):
                raise UsageError(f"--{name} has no effect without --with; add --with FOLDER")
        return None
    if args.anyway and args.solved:
        raise UsageError("--anyway trains with wrong parts and --solved without them: leave out one")
    if args.group.size > 1:
        raise UsageError("--with works in one process; leave out mpiexec")
    with refusing(args, LookupError, before="--but: "):
        return Choice(_folder(args), {*PARTS} - model.find_parts(args.but), args.solved)


def _folder(args: argparse.Namespace) -> Path:
    """Return the folder of ``--with``, from which functions can be loaded."""
    own: Path = args.own
    if backend() != "numpy":
        raise UsageError(f"--with needs NumPy, found {backend()}: exercises are in NumPy; leave out --backend")
    if not own.is_dir():
        raise UsageError(f"--with: there is no folder {own}; `minitransformer learn` makes my-exercises")
    if wanted := fault_of_path(f"{own.resolve()}"):
        raise UsageError(f"--with must be {wanted}, found {own}")
    return own


def try_own_parts(choice: Choice, trainer: Trainer, anyway: bool) -> Trial:
    """Check each part, draw the owner of each, and refuse wrong ones.

    Returns
    -------
    Trial
        The parts, and which of them are wrong.

    Raises
    ------
    UsageError
        If a part cannot be used, or is wrong without ``--anyway``.
    """
    sizes = len(trainer.source), len(trainer.target), trainer.corpus.shared
    setting = Setting(choice.folder, trainer.configuration, sizes, next(all_batches(trainer.batches)))
    print(f"comparing your functions in {choice.folder} with the engine's ...", flush=True)
    try:
        trial = model.try_parts(setting, choice.parts, tell=partial(print, flush=True))
    except Ended as ended:
        raise UsageError(f"a training step with your functions failed: {ended}") from ended
    _show(trial)
    if trainer.configuration.training.weight_decay and "adam-step" in trial.parts.functions:
        raise UsageError("the exercise adam-step has no weight decay; leave out --weight-decay, or add --but adam-step")
    if choice.solved:
        trial = trial._replace(parts=trial.parts.without(trial.wrong), wrong={}, broken={})
    refused = trial.broken if anyway else trial.broken | trial.wrong
    if refused:
        but = " ".join(f"--but {name}" for name in refused)
        also = ", or --solved for all of them" if len(refused) > 1 else ""
        also += "" if trial.broken else ", or --anyway to see the effect of the mistake"
        raise UsageError(f"training did not start; add {but} to use the engine's{also}")
    if not trial.parts.functions:
        raise UsageError(
            f"no part is solved in {choice.folder}; `minitransformer learn` begins with the first exercise"
        )
    print()
    sys.stdout.flush()
    return trial


def _show(trial: Trial) -> None:
    """Draw the parts, and say what is wrong with those that are."""
    stacks, mine = _stacks(trial.parts, trial), [*trial.parts.functions]
    wrong = trial.broken | trial.wrong
    n = sum(name not in wrong for name in mine)
    are = "is" if n == 1 else "are"
    sys.stdout.flush()
    print(f"{n} of {len(trial.used)} parts {are} yours{f', {len(wrong)} wrong' if wrong else ''}.\n")
    print(draw_model(stacks, get_terminal_size().columns, sys.stdout.encoding))
    print("x yours, with its milliseconds of a training step   ! wrong   . the engine's")
    if others := [name for name in PARTS if name not in trial.used]:
        print(fill(f"Not used by this model: {', '.join(others)}."))
    if trial.times:
        with_parts, without = 1000 * trial.together, 1000 * trial.engine
        print(
            f"A training step takes {with_parts:,.0f} ms with your parts, {without:,.0f} ms without: "
            f"{with_parts / without:.2f} times as long."
        )
    for name, why in wrong.items():
        print(f"\n{name} is wrong ({trial.parts.folder / find(name).file}):\n")
        print("\n".join(line if line[:1].isspace() else fill(line) for line in why.splitlines()))


def _stacks(parts: Parts, trial: Trial) -> dict[str, list[Box]]:
    """Return what to draw of parts, those that are wrong among them, with times and reasons."""
    wrong = {name for name in trial.wrong if name in parts.functions} | {*trial.broken}
    mine = parts.functions.keys() - wrong
    notes = parts.missing | dict.fromkeys(mine, "yours") | dict.fromkeys(wrong, "wrong")
    for name, seconds in trial.times.items():
        notes[name] = f"{1000 * seconds:.2f}" if seconds < 0.1 else f"{1000 * seconds:.0f}"
    return model.fill_stacks(trial.used, mine, wrong, notes, trial.decoder_only)


@contextmanager
def in_place(parts: Parts) -> Iterator[None]:
    """Let parts replace the engine's; report an error in a part by the learner's line, without a traceback.

    Raises
    ------
    UsageError
        If a part raises an error.
    """
    try:
        with parts.in_place():
            yield
    except (Exception, SystemExit) as error:
        if not (where := parts.where(error)):
            raise
        raise UsageError(f"{where} failed with {type(error).__name__}: {error}") from error


def draw_parts(parts: Parts, trial: Trial, folder: RunFolder) -> None:
    """Draw the owner of each part of the model, into the run folder."""
    from minitransformer.apps.plots import model_parts  # loads matplotlib

    model_parts(_stacks(parts, trial), folder.path / "parts.png")


def compare(wrong: RunFolder, right: RunFolder, names: Sequence[str]) -> None:
    """Show the effect of a mistake: the loss and the score with it and without it."""
    from minitransformer.apps.plots import compare_losses

    mistake = f"with your {', '.join(names)}"
    runs = {mistake: wrong.measurements.read(), "without the mistake": right.measurements.read()}
    compare_losses(runs, wrong.path / "with-and-without.png")
    print("\neffect of the mistake:")
    steps = sorted({line["step"] for lines in runs.values() for line in lines if "loss" in line})
    shown = steps[:: max(1, len(steps) // 8)] if steps else []
    width = max(map(len, runs))
    print(f"  {'loss at step':<{width}}" + "".join(f"{step:>8,}" for step in shown))
    for name, lines in runs.items():
        losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
        print(f"  {name:<{width}}" + "".join(f"{losses[step]:>8.3f}" if step in losses else " " * 8 for step in shown))
    for name, folder in zip(runs, (wrong, right), strict=True):
        if final := folder.measurements.final():
            if "exact_match" in final:
                print(f"  exact match {name}: {percent(final['exact_match'], 2)}")
            else:
                print(f"  bits per character {name}: {final['bits_per_character']:.3f}")
    print(f"the curves are in {wrong.path / 'with-and-without.png'}")


def parts_of_run(args: argparse.Namespace, needed: bool) -> AbstractContextManager[None]:
    """Return a context in which a run's own functions are in place, after saying so; see `with_parts_of_run`."""
    group = getattr(args, "group", SINGLE_PROCESS)
    kept = group.broadcast(lambda: model.read_record(args.run))
    if kept and group.size > 1:
        raise UsageError(f"the run in {args.run} has parts of your own, which work in one process; leave out mpiexec")
    own = _folder(args) if hasattr(args, "own") else None
    if kept is None:
        if own and Path(args.run).exists():  # otherwise the command says that there is no run
            raise UsageError(f"--with has no effect: no part of the run in {args.run} is your own; leave it out")
        return nullcontext()

    def without(reason: str) -> None:
        if needed:
            raise UsageError(f"{reason}; training must continue with the functions that it started with")
        note(f"{reason}; the engine's are used")

    these = _count_parts(len(kept.parts), kept.folder)
    if backend() != "numpy":
        without(f"{these}; functions of your own need NumPy, found {backend()}")
        return nullcontext()
    if own is None:
        own = find_folder()
        if own.resolve() != Path(kept.folder) or not own.is_dir():
            if Path(kept.folder).is_dir():  # its code is not run unasked: somebody else may have made the run
                raise UsageError(f"{these}, which is not this directory's; add --with {shlex.quote(kept.folder)}")
            without(f"{these}, which no longer exists (--with names another folder)")
            return nullcontext()
    parts = kept.open(own)
    for name, why in parts.broken.items():
        without(f"{own / find(name).file} cannot be used: {why.splitlines()[0]}")
    if gone := [name for name in kept.gone(parts) if name not in parts.broken]:
        without(f"no longer solved in {own}: {', '.join(gone)}")
    if edited := kept.edited(parts):
        note(f"changed since this run was trained: {', '.join(edited)}")
    note(_count_parts(len(parts.functions), parts.folder))
    return in_place(parts)


def _count_parts(n: int, folder: Path | str) -> str:
    return f"{n} of this model's parts {'is a function' if n == 1 else 'are functions'} in {folder}"
