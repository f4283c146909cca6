"""The command ``minitransformer``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from keyword import iskeyword

from minitransformer.arrays import BackendError, full_memory, use
from minitransformer.cli.errors import UsageError, one_line
from minitransformer.cli.parser import Parser
from minitransformer.cli.processes import quiet, run_together, start_ranks
from minitransformer.console import accept_all_characters
from minitransformer.data import MissingExtraError, UnknownTokenError
from minitransformer.decoding import Diverged
from minitransformer.files import FileError
from minitransformer.training import RunError
from minitransformer.training.ranks import ALONE, launched_rank

__all__ = ["main"]

COMMANDS = {
    name: import_module(f"minitransformer.cli.{name}{'_' * iskeyword(name)}")
    for name in (
        "train",
        "resume",
        "average",
        "translate",
        "evaluate",
        "attention",
        "explore",
        "import",
        "export",
        "gradcheck",
        "learn",
        "course",
        "tutorials",
        "bench",
        "table1",
        "paths",
        "recall",
        "extrapolation",
        "table3",
    )
}
"""Each command is the module of its name, or ``import_``: ``add_arguments(parser)``, ``run(args)``, and a docstring for
``--help``."""


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of every option that has one; a switch has none."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        without = action.default is False or action.default in (None, [])
        return action.help if without else super()._get_help_string(action)


def build_parser() -> Parser:
    """Return the parser of the whole command line: each command's module adds its own arguments."""
    parser = Parser(
        prog="minitransformer",
        description='The Transformer of "Attention Is All You Need", built from arrays alone.',
        epilog="`minitransformer COMMAND --help` describes a command. Begin with `minitransformer train`.",
    )
    parser.add_argument("--version", action="version", version=f"minitransformer {version('minitransformer')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=text[0][0].lower() + text[0][1:].rstrip("."),
            description=" ".join(part.replace("\n", " ") for part in text if part.strip()),
            formatter_class=_Formatter,
            conflict_handler="resolve",  # train has a --help of its own
        )
        module.add_arguments(command)
        command.add_argument(
            "--backend",
            choices=("numpy", "cupy"),
            default=argparse.SUPPRESS,
            help="array library: numpy (CPU) or cupy (NVIDIA GPU) (default: $MINITRANSFORMER_BACKEND, or numpy)",
        )
    return parser


def _prepare_streams() -> None:
    """Make the output streams accept every character, such as arrows and letters of any language."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, mode), encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        accept_all_characters(stream)


def _discard_output() -> None:
    """Discard the output that could not be written, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 if all went well, 1 or 2 if not, 130 if interrupted."""
    _prepare_streams()
    errors = sys.stderr
    with quiet(launched_rank()):
        args = _parse(sys.argv[1:] if arguments is None else arguments)
        return run_together(lambda: _run(args), lambda: getattr(args, "ranks", ALONE), errors)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command."""
    parser = build_parser()
    parser.refuse_dashes(arguments)
    args, rest = parser.parse_known_args(arguments)
    # argparse looks for the words of a text in one place only, and not after an option; after -- all are words
    end = rest.index("--") if "--" in rest else len(rest)
    if hasattr(args, "text") and not any(len(word) > 1 and word[0] == "-" for word in rest[:end]):
        args.text += rest[:end] + rest[end + 1 :]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _run(args: argparse.Namespace) -> int:
    """Run a command, print its error if there is one, and return its exit status."""
    try:
        start_ranks(args)
        if hasattr(args, "backend"):
            use(args.backend)
        status = int(COMMANDS[args.command].run(args))
        sys.stdout.flush()  # errors of writing are reported here, not when Python ends
        return status
    except (UsageError, BackendError, MissingExtraError, RunError, FileError, UnknownTokenError) as error:
        print(f"minitransformer {args.command}: {one_line(error)}", file=sys.stderr)
        return 2
    except Diverged as error:
        print(
            f"minitransformer {args.command}: {error}. Use an earlier checkpoint, or train again with a smaller rate",
            file=sys.stderr,
        )
        return 1
    except BrokenPipeError:  # the reader of our output has closed the pipe, as in `| head`
        _discard_output()
        return 141
    except OSError as error:
        print(f"minitransformer {args.command}: {one_line(error)}", file=sys.stderr)
        _discard_output()
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
        print(
            f"minitransformer {args.command}: The {whose}'s memory is full. {advice}. "
            f"[{type(error).__name__}: {error}]",
            file=sys.stderr,
        )
        return 1
