"""The command ``minitransformer``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from types import ModuleType

from minitransformer.apps.cli.errors import one_line
from minitransformer.apps.cli.parser import ARGUMENTS, Parser, add_listed
from minitransformer.console import accept_all_characters, fit_terminal, protect_terminal

__all__ = ["main"]


class _Commands(Mapping[str, ModuleType]):
    """The module of each command. It is loaded when it is looked up: `--help` needs none of them."""

    def __init__(self, *names: str) -> None:
        self._files = {name: f"{name}{'_' * iskeyword(name)}" for name in names}

    def __getitem__(self, name: str) -> ModuleType:
        return import_module(f"minitransformer.apps.cli.{self._files[name]}")

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def docstring(self, name: str) -> str:
        """Return the docstring of a module, which need not be loaded."""
        source = Path(__file__).with_name(f"{self._files[name]}.py").read_text(encoding="utf-8")
        return source.split('"""', 2)[1]


COMMANDS = _Commands(*ARGUMENTS["commands"])
"""Each command is the module of its name, or ``import_``: ``run(args)``, a docstring for ``--help``, and if need be
``CHOICES`` and ``WORDS`` for `add_listed`, and ``add_arguments(parser)``."""


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of every option that has one; a switch has none."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        without = action.default is False or action.default in (None, [])
        return action.help if without else super()._get_help_string(action)


def build_parser(only: str | None = None, listed: bool = True) -> Parser:
    """Return the parser of the command line, to which each command adds its own arguments.

    Parameters
    ----------
    only : str, optional
        The command whose arguments are needed; by default all.
    listed : bool
        Whether there are also the other commands, with their help, and --version. They take time: argparse looks for
        translations.
    """
    parser = Parser(
        prog="minitransformer",
        description='The Transformer of "Attention Is All You Need", built from arrays alone.',
        epilog="`minitransformer COMMAND --help` describes a command. Begin with `minitransformer train`.",
    )
    if listed:
        from importlib.metadata import version  # slow

        parser.add_argument("--version", action="version", version=f"minitransformer {version('minitransformer')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parser.commands = commands.choices
    for name in COMMANDS if listed else [only or ""]:
        text = COMMANDS.docstring(name).partition("\n\n")
        command = commands.add_parser(
            name,
            help=text[0][0].lower() + text[0][1:].rstrip("."),
            description=" ".join(part.replace("\n", " ") for part in text if part.strip()),
            formatter_class=_Formatter,
            conflict_handler="resolve",  # train has a --help of its own
        )
        if only not in (None, name):
            continue
        from minitransformer.apps.cli import run_options  # loads NumPy, as most commands do

        module = COMMANDS[name]
        choices, words = (getattr(run_options, both) | getattr(module, both, {}) for both in ("CHOICES", "WORDS"))
        add_listed(command, name, choices, words)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
        command.add_argument(
            "--backend",
            choices=("numpy", "cupy"),
            help="array library: numpy (CPU) or cupy (NVIDIA GPU) (default: $MINITRANSFORMER_BACKEND, or numpy)",
        )
    return parser


def _prepare_streams() -> None:
    """Make the output streams accept every character and fit the terminal; what models and files bring controls none.

    On standard error, `one_line` does that for messages, because progress bars move the cursor there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, mode), encoding="utf-8"))
    protect_terminal(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        accept_all_characters(stream)
        fit_terminal(stream)


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning as a note: the place in the code means nothing to who runs a command."""
    return f"note: {one_line(message)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 if all went well, 1 or 2 if not, 130 if interrupted."""
    _prepare_streams()
    is_program = arguments is None  # not called by one
    if arguments is None:
        warnings.formatwarning, arguments = _format_warning, sys.argv[1:]
    if not arguments:
        build_parser("").print_help(sys.stderr)
        sys.exit(2)
    if not any(word in COMMANDS for word in arguments):
        _parse(arguments)  # prints the help, the version or what is wrong, and ends the program
    from minitransformer.apps.cli.running import run_parsed  # loads NumPy and most packages
    from minitransformer.arrays import keep_freed_memory

    if is_program:  # the process belongs to the command
        keep_freed_memory()
    return run_parsed(lambda: _parse(arguments), COMMANDS)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command."""
    name = next((word for word in arguments if word in COMMANDS), "")
    parser = build_parser(name, listed=arguments[0] != name)
    command = parser.commands.get(name, parser)
    command.choose_language(arguments)
    command.refuse_dashes(arguments)
    args, rest = parser.parse_known_args(arguments)
    # argparse looks for the words of a text in one place only, and not after an option; after -- all are words
    end = rest.index("--") if "--" in rest else len(rest)
    if hasattr(args, "text") and not any(len(word) > 1 and word[0] == "-" for word in rest[:end]):
        args.text = [*args.text, *rest[:end], *rest[end + 1 :]]
    elif rest:
        command.error(f"unrecognized arguments: {' '.join(rest)}")
    return args
