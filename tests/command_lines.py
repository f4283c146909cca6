"""Command lines that are made from the parsers of the commands."""

import argparse

from minitransformer.apps.cli import build_parser


def actions_of(command):
    """Return the arguments of a command as argparse knows them, without its helps."""
    actions = build_parser(command, listed=False).commands[command]._actions
    return [action for action in actions if not {"--help", "--help-all"} & {*action.option_strings}]


def name_of(action):
    """Return an argument's name as a user knows it."""
    return action.option_strings[-1] if action.option_strings else action.dest


def line_of(command, action=None, *values):
    """Return a command with what it cannot do without, and values of one argument."""
    words = command.split()
    for other in actions_of(command):
        if action is not None and other.dest == action.dest:
            words += [*action.option_strings[-1:], *values]
        elif other.required:
            words += [*other.option_strings[-1:], str(next(iter(other.choices or ["x"])))]
    return words


def takes_a_value(action):
    """Whether an argument is not a switch."""
    return action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction)
