"""Folders of models for other programs."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.data import Bpe, Pieces
from minitransformer.durable import PARTIAL, put_in_place
from minitransformer.files import read_toml, reason
from minitransformer.nn import ModelOptions
from minitransformer.options import Options
from minitransformer.runs import RunError, TrainedRun
from minitransformer.tensor_files import save


class ExportError(ValueError):
    """A model computes what the other program cannot."""


def require_same(
    program: str, options: ModelOptions, known_there: Sequence[tuple[str, Any, Any]], carried: Iterable[str] = ()
) -> None:
    """Raise an ExportError if a model has options that a program does not know.

    Each option in ``known_there``, given with its value, must have the only value that the program knows, or one of a
    tuple. Those in ``carried``, and those that every program carries, are free; all others must be at their defaults.
    """
    for name, found, expected in known_there:
        known = expected if isinstance(expected, tuple) else (expected,)
        if found not in known:
            raise ExportError(
                f"{program} has only {name} {' or '.join(map(repr, known))}, found {found!r}; this model cannot be "
                "written for it"
            )
    require_carried(program, options, CARRIED.union(carried, (name for name, *_ in known_there)))


PROGRAMS = read_toml(Path(__file__).with_name("programs.toml"))
CARRIED = frozenset(PROGRAMS["every-exporter"]["model"])
"""The options of a model that every program computes, or that do not change what a trained model computes."""
CARRIED_RULES = PROGRAMS["every-exporter"]["search"]
"""The options of a search that every exporter writes, or names in its notes."""


def require_carried(program: str, options: Options, carried: Iterable[str]) -> None:
    """Raise an ExportError if an option that a program does not carry is not at its default."""
    for one in fields(options):
        if one.name not in carried and getattr(options, one.name) != one.default:
            raise ExportError(
                f"{program} has no option {one.name}, found {getattr(options, one.name)!r}, expected {one.default!r}; "
                "this model cannot be written for it"
            )


def head_sizes(options: ModelOptions) -> list[tuple[str, int, float]]:
    """Return sizes and numbers of heads, for `require_same`: other programs have only D / H, and H of each kind."""
    size = options.d_model / options.n_heads
    size = int(size) if size.is_integer() else size
    heads = ("n_kv_heads", options.kv_heads, options.n_heads)
    return [("d_k", options.key_size, size), ("d_v", options.value_size, size), heads]


def sentencepiece_models(run: TrainedRun) -> tuple[dict[str, bytes], str]:
    """Return the sentencepiece models of a run by their file names; if it has none, a text that names its kinds.

    They normalise a text as the run does.
    """
    sides = {"source.spm": run.source, "target.spm": run.target}
    models = {
        name: one.normalising_model() if isinstance(one, Bpe) else one.model
        for name, one in sides.items()
        if isinstance(one, Bpe | Pieces)
    }
    return (models, "") if len(models) == 2 else ({}, " and ".join(sorted({run.source.kind, run.target.kind})))


def check_new(out: Path) -> None:
    """Raise a RunError if there is something at a path; an empty folder is nothing."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RunError(f"{out} exists already; choose another --out")
    except OSError as error:
        raise RunError(f"cannot read {out}: {reason(error)}") from error


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Give an empty folder that gets the name ``out`` when its files are written; if that fails, none is left.

    Raises
    ------
    RunError
        If there is something at the path already, or it cannot be written.
    """
    check_new(out)
    place = out.resolve()  # "." has no name, and a link to an empty folder stays a link
    aside = place.with_name(f".{secrets.token_hex(8)}{PARTIAL}")
    try:
        aside.mkdir(parents=True)
        try:
            yield aside
            if place.exists():
                place.rmdir()  # it is empty; Windows replaces no folder
            put_in_place(aside, place)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise RunError(f"cannot write {out}: {reason(error)}") from error
    except RunError as error:  # name the folder that was asked for
        raise RunError(f"{error}".replace(f"{aside}", f"{out}")) from error


def write_folder(out: Path, files: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    """Write a new folder for transformers: files of bytes or JSON, by their names, and ``model.safetensors``.

    Raises
    ------
    RunError
        If there is something at the path already, or it cannot be written.
    """
    with new_folder(out) as aside:
        for name, value in files.items():
            raw = value if isinstance(value, bytes) else f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode()
            (aside / name).write_bytes(raw)
        # safetensors writes arrays that are not in C order wrongly
        ordered = {name: np.require(array, requirements="C") for name, array in tensors.items()}
        (aside / "model.safetensors").write_bytes(save(ordered, metadata={"format": "pt"}))
