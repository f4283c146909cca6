"""A configuration from a file and from options of the command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from minitransformer.tasks import PATHS, TASKS, build, recipe_file, recipe_names
from minitransformer.training import Configuration

__all__ = ["add_options", "configured"]

KINDS = {int: "N", float: "X", str: "NAME"}


def _options() -> Iterator[tuple[dataclasses.Field[Any], type]]:
    """Yield the fields of a configuration that are options, with their types; None is only a default."""
    hints = get_type_hints(Configuration)
    for field in dataclasses.fields(Configuration):
        if "help" in field.metadata:
            hint = hints[field.name]
            yield field, next((kind for kind in get_args(hint) if kind is not type(None)), hint)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the task, a file to begin from, and an option for each field of a configuration."""
    parser.add_argument(
        "task", nargs="?", default=argparse.SUPPRESS, help=f"what to train: {', '.join(TASKS)} (default: numbers)"
    )
    parser.add_argument("--to", default=argparse.SUPPRESS, help="target language of the task numbers: de, fr or ko")
    parser.add_argument(
        "--config",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="begin from a recipe (.toml), a run folder or its configuration.json, or a recipe that comes with this "
        f"package: {', '.join(recipe_names())}; options here win",
    )
    group = parser.add_argument_group(
        "model, training and data", "a task may have other defaults; each run writes its own down"
    )
    for field, kind in _options():
        name = f"--{field.name.replace('_', '-')}"
        known = "" if field.default is None else f" (default: {field.default})"
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": field.metadata["help"] + known}
        if kind is bool:
            group.add_argument(name, action=argparse.BooleanOptionalAction, **options)
        else:
            metavar = "PATH" if field.name in PATHS else KINDS[kind]
            group.add_argument(name, type=kind, metavar=metavar, **options)


def configured(args: argparse.Namespace) -> Configuration:
    """Return the configuration that the command line asks for.

    Raises
    ------
    ValueError
        If a file is not what it should be, or a value is out of its range.
    """
    values, picked = _read(args.config) if hasattr(args, "config") else ({}, [])
    task = values.pop("task", None)
    options = dict(values.pop("task_options", {}))
    if hasattr(args, "task"):
        if task not in (None, args.task):
            raise ValueError(f"found the task {args.task}, but {args.config} is for the task {task}; leave one out")
        task = args.task
    if hasattr(args, "to"):
        options["to"] = args.to
    here = {field.name: getattr(args, field.name) for field, _ in _options() if hasattr(args, field.name)}
    built = build(task or "numbers", **options)
    configuration = Configuration.of_task(built, **(values | here))
    for name in picked:
        if why := built.ignored(name):
            raise ValueError(f"{name} in {args.config} has no effect: {why}; leave it out")
    for name in here:
        if why := built.ignored(name) or configuration.ignored(name):
            raise ValueError(f"--{name.replace('_', '-')} has no effect here: {why}; leave it out")
    return configuration


def _read(name: str) -> tuple[dict[str, Any], list[str]]:
    """Read some of a configuration's values; paths in a recipe start from the recipe's folder.

    Beside them the names of those that somebody picked: all of a recipe's, none of a run's, which names every value.
    """
    path = recipe_file(name) or Path(name)
    if path.is_dir():
        path = path / "configuration.json"
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError as error:
        raise ValueError(
            f"there is no file {path}; recipes that come with this package are {', '.join(recipe_names())}"
        ) from error
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # both decoders' errors are
        raise ValueError(f"{path} cannot be read: {error}") from error
    try:
        if not isinstance(values, dict):
            raise ValueError(f"found {type(values).__name__}")
        Configuration.check_types(values)
    except ValueError as error:
        raise ValueError(f"{path} is not a configuration: {error}") from error
    for field in PATHS:
        if values.get(field) is not None:
            values[field] = str(path.parent / values[field])
    return values, [] if path.suffix == ".json" else list(values)
