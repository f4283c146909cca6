"""Checkpoints: the state of a training in one file, with a checksum."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from minitransformer.training.durable import PARTIAL, write_durably

__all__ = ["Checkpoint", "RunError", "checkpoint_files", "checkpoint_name", "read_checkpoint", "write_checkpoint"]

PARTS = ("model", "optimiser", "mean")
_NAME = re.compile(r"step-(\d+)\.safetensors")


class RunError(RuntimeError):
    """A run folder is missing, incomplete or damaged, or is in the way."""


class Checkpoint(NamedTuple):
    """The state of a training."""

    model: dict[str, Any]
    optimiser: dict[str, Any]
    """Empty where the weights are only to be used."""
    mean: dict[str, Any]
    """The mean of the last steps' weights, which is what translates; empty before training gets there."""
    state: dict[str, Any]
    """Step, random state, and so on: plain values."""


def checkpoint_name(step: int) -> str:
    """Return the name of the file that is written after a step."""
    return f"step-{step:08d}.safetensors"


def checkpoint_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints of a folder with their steps, the oldest first; none, if there is no such folder.

    Raises
    ------
    RunError
        If the folder cannot be read.
    """
    try:
        found = [(match, path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {folder}: {error.strerror or error}") from error
    return sorted((int(match[1]), path) for match, path in found)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; see `write_durably`.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    arrays = {
        # safetensors 0.8.0 writes the memory of an array that is not contiguous under its logical shape
        f"{part}.{name}": np.require(array, requirements="C")
        for part in PARTS
        for name, array in getattr(checkpoint, part).items()
    }
    state = json.dumps(checkpoint.state)
    try:
        path.parent.mkdir(exist_ok=True)
        write_durably(path, save(arrays, metadata={"state": state, "crc32": _checksum(arrays, state)}))
    except OSError as error:
        kept = "what was there before is kept"
        if _NAME.fullmatch(path.name) and (before := checkpoint_files(path.parent)):
            kept = f"{before[-1][1]}, the one before, is kept"
        raise RunError(f"cannot save {path}: {error.strerror or error}; {kept}") from error


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    RunError
        If it is missing, damaged, or something else.
    """
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (not a mapping)
        state = json.loads(metadata["state"])
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts[part][name] = array
        wanted = metadata["crc32"]
    except FileNotFoundError as error:
        raise RunError(f"there is no checkpoint {path}") from error
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged or not a checkpoint of this program: {error}") from error
    if (found := _checksum(arrays, metadata["state"])) != wanted:
        raise RunError(f"{path} is damaged: its contents have the checksum {found}, expected {wanted}")
    return Checkpoint(parts["model"], parts["optimiser"], parts["mean"], state)


def remove_partial(folder: Path) -> None:
    """Remove what an end in the middle of writing has left behind."""
    for path in folder.glob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def _checksum(arrays: Mapping[str, Any], state: str) -> str:
    """Sum up names and contents, as safetensors itself notices only a file that is too short."""
    total = zlib.crc32(state.encode())
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].reshape(-1).view(np.uint8), zlib.crc32(name.encode(), total))
    return f"{total:08x}"
