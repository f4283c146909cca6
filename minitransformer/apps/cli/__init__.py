"""The command ``minitransformer``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Generator, Sequence
from importlib import import_module
from itertools import pairwise
from keyword import iskeyword
from pathlib import Path
from typing import Any

from minitransformer.apps.cli.errors import one_line
from minitransformer.apps.cli.parser import ARGUMENTS, Parser, add_listed
from minitransformer.console import accept_all_characters, fit_terminal, protect_terminal

__all__ = ["main"]


class _Commands(dict[str, Any]):
    """What runs each command. Its module is loaded when it is looked up: `--help` needs none of them."""

    def __getitem__(self, name: str) -> Any:
        first, _, second = name.partition(" ")
        module = import_module(f"minitransformer.apps.cli.{_file_of(first)}")
        return module.COMMANDS[second] if second else module

    def docstring(self, name: str) -> str:
        """Return what the help says of a command, or of the first word of several; no module of one word is loaded."""
        if " " in name:
            return str(self[name].__doc__)
        source = Path(__file__).with_name(f"{_file_of(name)}.py").read_text(encoding="utf-8")
        return source.split('"""', 2)[1]


def _file_of(word: str) -> str:
    return f"{word}{'_' * iskeyword(word)}"


COMMANDS = _Commands(dict.fromkeys(ARGUMENTS["commands"]))
"""Each command is the module of its name, or ``import_``: ``run(args)``, a docstring for ``--help``, and if need be
``CHOICES`` and ``WORDS`` for `add_listed`, and ``add_arguments(parser)``. A command of two words is an entry of
``COMMANDS`` in the module of the first, with the same attributes."""
FIRST_WORDS = dict.fromkeys(name.partition(" ")[0] for name in COMMANDS)


def command_of(words: Sequence[str]) -> str:
    """Return the command in a command line: one of ``COMMANDS``, or ``"measure"`` without an experiment, or ``""``."""
    for first, second in pairwise([*words, ""]):
        if first in FIRST_WORDS:
            return both if (both := f"{first} {second}") in COMMANDS else first
    return ""


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of every option that has one; a switch has none."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        without = action.default is False or action.default in (None, [])
        return action.help if without else super()._get_help_string(action)


class _List(argparse.HelpFormatter):
    """List commands right below their heading, without a line for the word that stands for them."""

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action, None, None]:
        yield from getattr(action, "_get_subactions", tuple)()

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return text.partition("\n")[2] if action.nargs == argparse.PARSER else text


def build_parser(only: str | None = None, listed: bool = True) -> Parser:
    """Return the parser of the command line, to which each command adds its own arguments.

    Parameters
    ----------
    only : str, optional
        The command whose arguments are needed; by default all. After the first word of several commands these are
        listed.
    listed : bool
        Whether there are also the other commands, with their help, and --version. They take time: argparse looks for
        translations.
    """
    parser = Parser(
        prog="minitransformer",
        usage="minitransformer [-h] [--version] COMMAND ...",
        description='The Transformer of "Attention Is All You Need", built from arrays alone.',
        epilog="Begin with `minitransformer train`. `minitransformer COMMAND --help` helps.",
        formatter_class=_List,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    if listed:
        from importlib.metadata import version  # slow

        words = f"minitransformer {version('minitransformer')}"
        parser.add_argument("--version", action="version", version=words, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(
        title="commands", prog=parser.prog, dest="command", metavar="COMMAND", required=True
    )
    parsers: dict[str, Parser] = {}
    chosen = (only or "").partition(" ")[0]
    for first in FIRST_WORDS if listed else [chosen]:
        command = parsers[first] = _add_command(commands, first, first)
        if only is not None and first != chosen:
            continue
        several = [name for name in COMMANDS if name.startswith(f"{first} ")]
        if not several:
            _add_arguments(command, first)
            continue
        command.formatter_class = _List
        experiments = command.add_subparsers(title="experiments", prog=command.prog, metavar="EXPERIMENT")
        for name in [only] if only in several and not listed else several:
            parsers[name] = _add_command(experiments, name.removeprefix(f"{first} "), name)
            if only in (None, name):
                _add_arguments(parsers[name], name)
    parser.commands = parsers
    return parser


def _add_command(place: Any, word: str, name: str) -> Parser:
    """Add the parser of a command, by its last word, and return it."""
    first, _, rest = COMMANDS.docstring(name).partition("\n\n")
    command: Parser = place.add_parser(
        word,
        help=first[0].lower() + first[1:].rstrip("."),
        description=" ".join(part.replace("\n", " ") for part in (first, rest) if part.strip()),
        formatter_class=_Formatter,
        conflict_handler="resolve",  # train has a --help of its own
    )
    return command


def _add_arguments(parser: Parser, name: str) -> None:
    """Add the arguments of a command."""
    from minitransformer.apps.cli import run_options  # loads NumPy, as most commands do

    command = COMMANDS[name]
    choices, words = ({**getattr(run_options, both), **getattr(command, both, {})} for both in ("CHOICES", "WORDS"))
    add_listed(parser, name, choices, words)
    if hasattr(command, "add_arguments"):
        command.add_arguments(parser)
    parser.add_argument(
        "--backend",
        choices=("numpy", "cupy"),
        help="array library: numpy (CPU) or cupy (NVIDIA GPU) (default: $MINITRANSFORMER_BACKEND, or numpy)",
    )
    parser.set_defaults(command=name)


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
    if not command_of(arguments):
        _parse(arguments)  # prints the help, the version or what is wrong, and ends the program
    from minitransformer.apps.cli.running import run_parsed  # loads NumPy and most packages
    from minitransformer.arrays import keep_freed_memory

    if is_program:  # the process belongs to the command
        keep_freed_memory()
    return run_parsed(lambda: _parse(arguments), COMMANDS)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command."""
    name = command_of(arguments)
    parser = build_parser(name, listed=arguments[0] not in FIRST_WORDS)
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
    if args.command not in COMMANDS:  # the first word of several
        command.print_help()
        command.exit()
    return args
