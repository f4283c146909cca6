"""Uses a learner's functions, with which a run was trained, in commands that open the run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps

from minitransformer.parallel import SINGLE_PROCESS
from minitransformer.runs import OWN_PARTS

Command = Callable[[argparse.Namespace], int]


def with_parts_of_run(needed: bool = False) -> Callable[[Command], Command]:
    """Let a command that opens a run use the functions that trained it.

    Parameters
    ----------
    needed : bool
        Whether the engine's functions will not do in their place, as in the middle of a training.
    """

    def change(run: Command) -> Command:
        @wraps(run)
        def run_with_parts(args: argparse.Namespace) -> int:
            there = getattr(args, "group", SINGLE_PROCESS).broadcast(lambda: (args.run / OWN_PARTS).exists())
            if not there and not hasattr(args, "own"):
                return run(args)
            from minitransformer.apps.cli.own_parts import parts_of_run  # loads the exercises and the checker

            with parts_of_run(args, needed):
                return run(args)

        return run_with_parts

    return change
