"""Run a command whose arguments are parsed, and turn its errors into messages and exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from minitransformer.apps.cli.errors import UsageError, one_line
from minitransformer.apps.cli.parser import check_ranges
from minitransformer.apps.cli.processes import end_all, find_group, quiet
from minitransformer.arrays import BackendError, full_memory, use
from minitransformer.data import MissingExtraError, UnknownTokenError
from minitransformer.decoding import Diverged
from minitransformer.files import FileError, reason
from minitransformer.parallel import SINGLE_PROCESS, ProcessLostError, launched_rank
from minitransformer.runs import RunError


def run_parsed(parse: Callable[[], argparse.Namespace], commands: Mapping[str, Any]) -> int:
    """Parse arguments, run the command, return its exit status; only the first of several processes prints."""
    errors = sys.stderr
    try:
        rank = launched_rank()
    except ValueError as error:
        print(f"minitransformer: {one_line(error)}", file=sys.stderr)
        return 2
    with quiet(rank):
        args = parse()
        try:
            status = run_command(args, commands[args.command])
        except BaseException:
            if getattr(args, "group", SINGLE_PROCESS).size == 1:
                raise
            traceback.print_exc()
            status = 1
        group = getattr(args, "group", SINGLE_PROCESS)
        if status and group.size > 1:
            end_all(status, group, errors)
        return status


def run_command(args: argparse.Namespace, command: Any) -> int:
    """Run a command, print its error if there is one, and return its exit status."""

    def complain(words: object) -> None:
        print(f"minitransformer {args.command}: {words}", file=sys.stderr)

    try:
        find_group(args)
        if hasattr(args, "backend"):
            use(args.backend)
        check_ranges(args)
        status = int(command.run(args))
        sys.stdout.flush()  # errors of writing are reported here, not when Python ends
        return status
    except (UsageError, BackendError, MissingExtraError, RunError, FileError, UnknownTokenError) as error:
        complain(one_line(error))
        return 2
    except Diverged as error:
        complain(f"{error}. Use an earlier checkpoint, or train again with a lower learning rate")
        return 1
    except BrokenPipeError:  # the reader of our output has closed the pipe, as in `| head`
        discard_output()
        return 141
    except ProcessLostError as error:
        complain(error)
        return 1
    except OSError as error:
        complain(one_line(f"{error.filename}: {reason(error)}" if error.filename else error))
        discard_output()
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if not (whose := full_memory(error)):
            raise
        advice = ". ".join(getattr(error, "__notes__", ())) or (
            "Use smaller batches (--batch-tokens), recompute the layers in the backward pass (--recompute), or use a "
            "smaller model"
        )
        complain(f"The {whose}'s memory is full. {advice}. [{type(error).__name__}: {error}]")
        return 1


def discard_output() -> None:
    """Discard the output that could not be written, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
