"""The command ``minitransformer``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from minitransformer.arrays import BackendError, out_of_memory, use
from minitransformer.cli import (
    attention,
    average,
    bench,
    evaluate,
    gradcheck,
    learn,
    resume,
    table1,
    table3,
    train,
    translate,
)
from minitransformer.data import MissingExtraError, TextError, UnknownTokenError
from minitransformer.training import RunError

__all__ = ["main"]

COMMANDS = {
    "train": train,
    "resume": resume,
    "average": average,
    "translate": translate,
    "evaluate": evaluate,
    "attention": attention,
    "gradcheck": gradcheck,
    "learn": learn,
    "bench": bench,
    "table1": table1,
    "table3": table3,
}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line: each command's module adds its own arguments."""
    parser = argparse.ArgumentParser(
        prog="minitransformer",
        description='The Transformer of "Attention Is All You Need", built from nothing but arrays.',
        epilog="`minitransformer COMMAND --help` describes a command. Begin with `minitransformer train`.",
    )
    parser.add_argument("--version", action="version", version=f"minitransformer {version('minitransformer')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=text[0].rstrip(".").lower(),
            description=" ".join(part.replace("\n", " ") for part in text if part.strip()),
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        module.add_arguments(command)
        command.add_argument(
            "--backend",
            choices=("numpy", "cupy"),
            default=argparse.SUPPRESS,
            help="array library: numpy (CPU) or cupy (NVIDIA GPU); by default what MINITRANSFORMER_BACKEND says, "
            "else numpy",
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 if all went well, 1 or 2 if not, 130 if interrupted."""
    parser = build_parser()
    args, rest = parser.parse_known_args(arguments)
    # argparse looks for the words of a text in one place only, and not after an option
    if hasattr(args, "text") and not any(len(word) > 1 and word[0] == "-" for word in rest):
        args.text += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        if hasattr(args, "backend"):
            use(args.backend)
        return int(COMMANDS[args.command].run(args))
    except (BackendError, MissingExtraError, RunError, TextError, UnknownTokenError) as error:
        print(f"minitransformer {args.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        sys.stderr.close()
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if not (words := out_of_memory(error)):
            raise
        print(f"minitransformer {args.command}: {words}", file=sys.stderr)
        return 1
