"""A configuration from a file and from options of the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from minitransformer.apps.cli.options import OPTIONS, describe, flag_of, with_flags
from minitransformer.apps.cli.parser import path
from minitransformer.files import read_json, read_toml
from minitransformer.nn import Transformer
from minitransformer.options import Declaration, fault_of_path
from minitransformer.runs import LENGTHS, Configuration, TrainedRun
from minitransformer.tasks import TASKS, build, recipe_file, recipe_names
from minitransformer.training import continue_from

KINDS = {int: "N", float: "X", str: "NAME"}
DEFAULT_TASK = "numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task, a file to start from, the options of a configuration, and a short and a long help."""
    parser.add_argument("task", nargs="?", help=f"what to train: {', '.join(TASKS)} (default: {DEFAULT_TASK})")
    to = parser.add_argument(
        "--to", help="target of numbers: de, fr or ko (default: de); of dates: ko, ko-words or ko-short (default: ko)"
    )
    parser.add_argument(
        "--config",
        type=_configuration_file,
        metavar="FILE",
        help="start from a recipe (.toml), a run folder, its configuration.json, or a recipe of this package: "
        f"{', '.join(recipe_names())}. Options on the command line take precedence",
    )
    groups = {part: parser.add_argument_group(part) for part in ("model", "training", "data")}
    actions = {}
    for name, declared in OPTIONS.items():
        kind = _kind(declared)
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": declared.metadata["help"]}
        if kind is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            choices = "{" + ",".join(declared.metadata["choices"]) + "}" if declared.metadata["choices"] else None
            if get_origin(kind) is Sequence:
                options["nargs"], kind = "+", get_args(kind)[0]
            options |= {
                "type": _path_text if declared.metadata["path"] else kind,
                "metavar": choices or ("PATH" if declared.metadata["path"] else KINDS[kind]),
            }
        actions[name] = groups[declared.part or "training"].add_argument(flag_of(name), **options)
    parser.usage = "%(prog)s [TASK] [OPTION ...]"  # the help lists the options
    parser.add_argument(
        "-h", "--help", action=_Help, actions=actions, to=to, help="show the options that most people need"
    )
    parser.add_argument("--help-all", action=_Help, actions=actions, to=to, help="show all options of the task")


class _Help(argparse.Action):
    """Print the options of the task before it on the command line, with its defaults."""

    def __init__(self, actions: Mapping[str, argparse.Action], to: argparse.Action, **options: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **options)
        self.actions, self.to = actions, to

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        try:
            configuration = read_configuration(namespace)
        except ValueError as error:
            parser.error(describe(error, namespace))
        task, defaults = configuration.build_task(), configuration.flat()
        if "to" not in task.options:
            self.to.help = argparse.SUPPRESS
        for name, action in self.actions.items():
            metadata, value = OPTIONS[name].metadata, defaults[name]
            common = metadata["common"] and not configuration.why_ignored(name)
            if task.why_ignored(name) or not (common or option_string == "--help-all"):
                action.help = argparse.SUPPRESS
            elif name in task.sized and not any(defaults[file] for file in task.reads):
                action.help = f"{metadata['help'].partition(' (default')[0]} (default: by the size of the text)"
            elif value is not None:
                action.help = f"{metadata['help'].partition(' (default')[0]} (default: {value})".replace("%", "%%")
        other = "" if hasattr(namespace, "task") else "; for another task: `minitransformer train TASK --help`"
        parser.epilog = f"The defaults are those of the task {task.name}{other}."
        parser.print_help()
        parser.exit()


def _path_text(text: str) -> str:
    return str(path(text))


def _configuration_file(name: str) -> str:
    return name if recipe_file(name) else _path_text(name)


def _kind(declared: Declaration) -> type:
    """Return the type of an option; None is only a default."""
    return next((kind for kind in get_args(declared.kind) if kind is not type(None)), declared.kind)


def read_configuration(args: argparse.Namespace, start: TrainedRun | None = None) -> Configuration:
    """Return the configuration that the command line asks for.

    Parameters
    ----------
    args : argparse.Namespace
        The command line.
    start : TrainedRun, optional
        The run of ``--from``, whose weights training begins with.

    Raises
    ------
    ValueError
        If a file is not what it should be, or a value is out of its range; the message names the option.
    """
    values, picked = _read(args.config) if hasattr(args, "config") else ({}, [])
    if start and values:
        raise ValueError(
            "found --from and --config, expected one: --from takes the model and the data options from its run"
        )
    values.pop("start", None)
    name = values.pop("task", None)
    options = dict(values.pop("task_options", {}))
    if hasattr(args, "task"):
        if name not in (None, args.task):
            raise ValueError(f"found the task {args.task}, but {args.config} is for the task {name}; leave one out")
        name = args.task
    elif start:
        name = "text" if isinstance(start.model, Transformer) else "characters"
    if hasattr(args, "to"):
        options["to"] = args.to
    name = DEFAULT_TASK if name is None else name
    try:
        task = build(name, **options)
    except ValueError as error:
        raise ValueError(f"--to: {error}" if hasattr(args, "to") and name in TASKS else f"{error}") from error
    given = {name: getattr(args, name) for name in OPTIONS if hasattr(args, name)}
    if given.keys() & {*LENGTHS}:
        values = {name: value for name, value in values.items() if name not in LENGTHS}
    if start:
        if wanted := fault_of_path(place := os.path.abspath(args.start)):
            raise ValueError(f"--from must be {wanted}, found {place}")
        configuration = continue_from(start, task, given).changed(start=place)
    else:
        configuration = Configuration.of_task(task, **(values | given))
    decided = given.keys() & {"schedule", "valid_source", "data"}  # they may switch off others in the file
    for name in picked:
        if why := task.why_ignored(name) or (None if decided else configuration.why_ignored(name)):
            raise ValueError(f"{name} in {args.config} has no effect: {why}; leave it out")
    for name in sorted(given, key=lambda name: task.why_ignored(name) is None):  # the task's reasons come first
        if why := task.why_ignored(name) or configuration.why_ignored(name):
            why = with_flags(why, [other for other in OPTIONS if "_" in other])
            raise ValueError(f"{flag_of(name)} has no effect here: {why}; leave it out")
    return configuration


def _read(name: str) -> tuple[dict[str, Any], list[str]]:
    """Read some of a configuration's values; paths in a recipe start from the recipe's folder.

    Also return the names that the author picked: all in a recipe, none in a run's file, which holds every value.
    """
    path = recipe_file(name) or Path(name)
    if path.is_dir():
        path = path / "configuration.json"
    if not path.exists():
        raise ValueError(
            f"there is no file {path}; recipes that come with this package are {', '.join(recipe_names())}"
        )
    values = read_json(path) if path.suffix == ".json" else read_toml(path)
    try:
        if not isinstance(values, dict):
            raise ValueError(f"found {type(values).__name__}")
        values = Configuration.with_new_names(values)
        Configuration.check(values)
    except ValueError as error:
        raise ValueError(f"{path} is not a configuration: {error}") from error
    for field, declared in OPTIONS.items():
        if declared.metadata["path"] and values.get(field) is not None:
            value = values[field]
            several = [str(path.parent / one) for one in (value if isinstance(value, list) else [value])]
            values[field] = several if isinstance(value, list) else several[0]
    return values, [] if path.suffix == ".json" else list(values)
