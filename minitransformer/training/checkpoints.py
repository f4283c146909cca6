"""Checkpoints: the state of a training in one file, with a checksum; and the folder that holds those of a run."""

from __future__ import annotations

import json
import re
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from minitransformer.training.durable import write_durably
from minitransformer.training.options import TrainingOptions

__all__ = ["Checkpoint", "Checkpoints", "Report", "RunError", "read_checkpoint", "warn", "write_checkpoint"]

Report = Callable[[str], None]

PARTS = ("model", "optimiser", "mean")
_NAME = re.compile(r"step-(\d+)\.safetensors")


def warn(message: str) -> None:
    """Report something as a warning."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


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


class Checkpoints:
    """The checkpoints of a run, in a folder.

    Parameters
    ----------
    path : Path
        The folder, inside the run folder; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[tuple[int, Path]]:
        """Return the step and the file of each checkpoint, damaged or not, the oldest first.

        Raises
        ------
        RunError
            If the folder cannot be read.
        """
        try:
            found = [(match, path) for path in self.path.iterdir() if (match := _NAME.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error
        return sorted((int(match[1]), path) for match, path in found)

    def save(self, checkpoint: Checkpoint, options: TrainingOptions) -> Path:
        """Write a checkpoint, and then remove old ones.

        Parameters
        ----------
        checkpoint : Checkpoint
            The state of the training; ``state["step"]`` names the file.
        options : TrainingOptions
            Say when a checkpoint is due and how many are kept, this one included. One that was saved between others,
            because of an interruption, removes none, and is removed by the next.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RunError
            If it cannot be written; the one before is kept.
        """
        path = self.path / f"step-{checkpoint.state['step']:08d}.safetensors"
        write_checkpoint(path, checkpoint)
        if options.saves_at(checkpoint.state["step"]):
            files = self.files()
            regular = [file for step, file in files if options.saves_at(step)]
            for _, file in files:
                if file not in regular[-options.keep :]:
                    file.unlink(missing_ok=True)
        return path

    def last(self, n: int, options: TrainingOptions, finished: bool) -> list[Path]:
        """Return the last n checkpoints, the oldest first.

        The initial weights do not count, nor does what was saved between others, so that an interruption changes
        nothing. The last checkpoint of a finished run always counts: an early stop may be between others.

        Raises
        ------
        RunError
            If there are fewer.
        """
        files = self.files()
        end = files[-1][0] if files and finished else None
        found = [path for step, path in files if step and (options.saves_at(step) or step == end)]
        if len(found) < n:
            raise RunError(
                f"{self.path} has {len(found)} checkpoints, expected {n}; average fewer, or train with --keep {n} "
                "(--last says how many)"
            )
        return found[len(found) - n :]

    def load(self, report: Report = warn) -> Checkpoint:
        """Read the newest checkpoint that is whole.

        Parameters
        ----------
        report : callable
            Told of each newer one that is damaged; by default that is a warning.

        Raises
        ------
        RunError
            If there is none, or all are damaged.
        """
        run = self.path.parent
        if not run.is_dir():
            raise RunError(f"there is no run folder {run}")
        files = [path for _, path in reversed(self.files())]
        if not files:
            raise RunError(f"{run} has no checkpoint: training has not saved anything yet")
        complaints: list[str] = []
        for path in files:
            try:
                checkpoint = read_checkpoint(path)
            except RunError as error:
                complaints.append(f"{error}")
                continue
            for complaint in complaints:
                report(f"{complaint}; {path}, the one before, is used")
            return checkpoint
        raise RunError("; ".join([*complaints, "there is no other checkpoint"]))


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
        if _NAME.fullmatch(path.name) and (before := Checkpoints(path.parent).files()):
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


def _checksum(arrays: Mapping[str, Any], state: str) -> str:
    """Sum up names and contents, as safetensors itself notices only a file that is too short."""
    total = zlib.crc32(state.encode())
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].reshape(-1).view(np.uint8), zlib.crc32(name.encode(), total))
    return f"{total:08x}"
