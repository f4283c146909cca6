"""Checkpoints: the state of a training run in one file, with a checksum, and the folder of a run's checkpoints."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from minitransformer.console import counted
from minitransformer.durable import (
    check_folder,
    flush_folder,
    make_folder,
    remove,
    remove_partial,
    write_durably,
    write_whole,
)
from minitransformer.files import FileError, parse_json, reason, require_regular_file
from minitransformer.options import OptionError, Options
from minitransformer.runs.errors import RunError, refusing
from minitransformer.runs.options import TrainingOptions
from minitransformer.runs.state import State, TrainingState
from minitransformer.tensor_files import TYPES, SafetensorError, safe_open, save

S = TypeVar("S", bound=Options)
Report = Callable[[str], None]

PARTS = ("model", "optimiser", "mean")
_NAME = re.compile(r"step-([0-9]{8}|[1-9][0-9]{8,})\.safetensors")
"""One name for each step, so that a copy under another spelling of the number is not a second checkpoint."""
# for a number type that NumPy lacks, safetensors and NumPy raise an AttributeError or a TypeError
_DAMAGE = (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError)


def warn(message: str) -> None:
    """Report a message as a warning."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class Checkpoint(NamedTuple):
    """The state of a training run."""

    model: dict[str, Any]
    optimiser: dict[str, Any]
    """Empty if the weights are only used, not trained further."""
    mean: dict[str, Any]
    """The mean of the last steps' weights, which is used to translate; empty before those steps."""
    state: dict[str, Any]
    """Step, random state, and so on: plain values; see `minitransformer.runs.state`."""
    path: Path | None = None
    """The file from which it was read."""


class Checkpoints:
    """The checkpoints of a run, in a folder.

    Parameters
    ----------
    path : Path
        The folder, inside the run folder; it need not exist yet.
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
        found = self._list()
        while found != (found := self._list()):  # a listing may miss files that are renamed or removed meanwhile
            pass
        return found

    def _list(self) -> list[tuple[int, Path]]:
        try:
            found = [(match, path) for path in self.path.iterdir() if (match := _NAME.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {reason(error)}") from error
        return sorted((int(match[1]), path) for match, path in found)

    def file(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.path / f"step-{step:08d}.safetensors"

    def save(self, checkpoint: Checkpoint, options: TrainingOptions) -> Path:
        """Write a checkpoint, and then remove old ones.

        Parameters
        ----------
        checkpoint : Checkpoint
            The state of the training run; ``state["step"]`` names the file.
        options : TrainingOptions
            They set when a checkpoint is due and how many are kept, this one included. A checkpoint saved in between
            because of an interruption removes none; the next one removes it.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RunError
            If it cannot be written; the previous one is kept.
        """
        path = self.file(checkpoint.state["step"])
        try:
            make_folder(self.path)
        except OSError as error:
            raise _save_error(path, error) from error
        write_checkpoint(path, checkpoint)
        self.prune(checkpoint.state["step"], options)
        return path

    def prune(self, step: int, options: TrainingOptions) -> None:
        """Remove the checkpoints that are no longer kept.

        Parameters
        ----------
        step : int
            The step of the newest checkpoint that is known to be intact; later ones stay.
        options : TrainingOptions
            See `save`. A checkpoint after the last one that was due stays.
        """
        files = [(n, file) for n, file in self.files() if n <= step]
        due = [n for n, file in files if _was_due(n, file, options)]
        kept = due[-options.keep :]
        for n, file in files:
            if due and n < due[-1] and n not in kept:
                with suppress(PermissionError):  # on Windows, while it is read; the next call removes it
                    file.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove unfinished files of killed processes.

        Raises
        ------
        OSError
            If that fails, as when the folder is a symbolic link.
        """
        check_folder(self.path)
        remove_partial(self.path)

    def clear(self) -> None:
        """Remove all checkpoints, and the folder if it is then empty; of a symbolic link, remove only the link."""
        if self.path.is_symlink():
            remove(self.path)
        elif self.path.exists():
            for _, file in self.files():
                remove(file)
            self.clean()
            flush_folder(self.path)
            with suppress(OSError):
                self.path.rmdir()

    def last(self, n: int, options: TrainingOptions, end: int | None) -> list[Path]:
        """Return the last n checkpoints, the oldest first.

        Initial weights do not count, nor do checkpoints saved because of an interruption: an interruption changes
        nothing. The last checkpoint of a finished run, after step ``end``, always counts, even after an early stop.

        Raises
        ------
        RunError
            If there are fewer, or that of a finished run is missing.
        """
        files = self.files()
        if end is not None and not any(step == end for step, _ in files):
            raise RunError(
                f"{self.file(end)} is missing, the last checkpoint of a finished run; restore it, or train its steps "
                f"again with `minitransformer resume {self.path.parent}`"
            )
        found = [path for step, path in files if step and (step == end or _was_due(step, path, options))]
        if len(found) < n:
            kept = f"--keep {n}" if options.keep < n else "a smaller --save-every"
            raise RunError(
                f"{self.path} has {counted(len(found), 'checkpoints')}, expected {n}; average fewer, or train with "
                f"{kept} (--last says how many)"
            )
        return found[len(found) - n :]

    def load(self, report: Report = warn) -> Checkpoint:
        """Read the newest intact checkpoint.

        Parameters
        ----------
        report : callable
            Called with a message for each newer one that is damaged; by default it warns.

        Raises
        ------
        RunError
            If there is none, or all are damaged.
        """
        run = self.path.parent
        if not run.is_dir():
            raise RunError(f"there is no run folder {run}")
        files = self.files()
        if not files:
            raise RunError(f"{run} has no checkpoint: training has not saved anything yet")
        complaints: list[str] = []
        while files:
            _, path = files.pop()
            try:
                checkpoint = read_checkpoint(path)
            except RunError as error:
                if os.path.lexists(path):
                    complaints.append(f"{error}")
                else:  # a training run has removed it after saving a newer one
                    files, complaints = self.files(), []
                continue
            for complaint in complaints:
                report(f"{complaint}; {path}, the one before, is used")
            return checkpoint
        raise RunError("; ".join([*complaints, "there is no other checkpoint"]))


def write_checkpoint(path: Path, checkpoint: Checkpoint, durable: bool = True) -> None:
    """Write a checkpoint; see `write_durably`, or `write_whole` for one that need not outlive a power cut.

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
    state = json.dumps(checkpoint.state, default=np.generic.item)  # NumPy's numbers
    try:
        write = write_durably if durable else write_whole
        write(path, save(arrays, metadata={"state": state, "crc32": _checksum(arrays, state)}))
    except OSError as error:
        raise _save_error(path, error) from error


def _save_error(path: Path, error: OSError) -> RunError:
    kept = "what was there before is kept"
    if path.parent.is_dir() and _NAME.fullmatch(path.name) and (before := Checkpoints(path.parent).files()):
        kept = f"{before[-1][1]}, the one before, is kept"
    return RunError(f"cannot save {path}: {reason(error)}; {kept}")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    RunError
        If it is missing, damaged, or not a checkpoint.
    """
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    try:
        if not path.exists():
            raise RunError(f"there is no checkpoint {path}")
        require_regular_file(path, largest=None)
        metadata, arrays = _read_safetensors(path)
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts[part][name] = array
        state, wanted = parse_json(metadata["state"]), metadata["crc32"]
    except FileError as error:
        raise RunError(f"{error}") from error
    except _DAMAGE as error:
        raise RunError(f"{path} is damaged or not a checkpoint of this program: {error}") from error
    if (found := _checksum(arrays, metadata["state"])) != wanted:
        raise RunError(f"{path} is damaged: its contents have the checksum {found}, expected {wanted}")
    checkpoint = Checkpoint(parts["model"], parts["optimiser"], parts["mean"], state, path)
    _check_contents(checkpoint)
    return checkpoint


def _read_safetensors(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the metadata and the arrays of a file of safetensors, which the library checks.

    The library would read arrays through a mapping of the file, which counts as memory besides the arrays.
    """
    with path.open("rb") as stream:
        with safe_open(path, framework="numpy"):  # checks the header, and that its sizes are those of the file
            start = 8 + int.from_bytes(stream.read(8), "little")
        header = parse_json(stream.read(start - 8))
        metadata, arrays = header.pop("__metadata__"), {}
        for key, entry in sorted(header.items()):
            stream.seek(start + entry["data_offsets"][0])
            array = np.fromfile(stream, TYPES[entry["dtype"]], math.prod(entry["shape"]))
            arrays[key] = array.reshape(entry["shape"])
    return metadata, arrays


def read_state(checkpoint: Checkpoint, kind: type[S]) -> S:
    """Return the state of a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        A checkpoint.
    kind : type
        The class of options that declares its state.

    Raises
    ------
    RunError
        If a value is missing, unknown or impossible.
    """
    with refusing(OptionError, f"{checkpoint.path} is not a checkpoint of this kind: "):
        return kind.from_flat(checkpoint.state)


def read_training_state(checkpoint: Checkpoint, options: TrainingOptions) -> TrainingState:
    """Read the state of a checkpoint from which training goes on with these options, as they may have been edited.

    Raises
    ------
    RunError
        If a value is missing, unknown or impossible, training is past its last step, or the checkpoint's mean of
        weights begins at another step than that of the last steps: no step can be taken out of a mean.
    """
    state, where = read_state(checkpoint, TrainingState), checkpoint.path or "the checkpoint"
    step, steps, last = state.step, options.steps, options.average_last
    held, wanted = state.averaged, options.averaged_at(step)
    if step > steps:
        raise RunError(f"{where} is past the last of {steps} steps; set steps to at least {step} in configuration.json")
    if held != wanted and (wanted or step == steps):
        found = f"the mean of steps {step - held + 1} to {step}" if held else "no mean"
        ways = [f"to {steps - step + held} (the mean goes on)"] * (held > 0)
        ways += [f"to at most {steps - step} (a new mean)"] * (step < steps)
        raise RunError(
            f"{where} holds {found}, but the last {last} of {steps} steps begin at {max(1, steps - last + 1)}; in "
            f"configuration.json set average_last {' or '.join(ways or ['to 1'])}, or steps to at least {step + last}"
        )
    return state


def _was_due(step: int, path: Path, options: TrainingOptions) -> bool:
    """Return whether a checkpoint was due when it was saved; of damaged and earlier ones, whether it would be now."""
    regular = None
    with suppress(FileError, *_DAMAGE):
        regular = _was_regular(path, path.stat().st_mtime_ns)
    return options.saves_at(step) if regular is None else regular or step == options.steps


@lru_cache(10_000)
def _was_regular(path: Path, written: int) -> bool | None:
    """Return what a checkpoint records; ``written`` tells it from an earlier file at its path."""
    require_regular_file(path, largest=None)
    with safe_open(path, framework="numpy") as file:
        found: bool | None = parse_json(file.metadata()["state"]).get("regular")
    return found


def _check_contents(checkpoint: Checkpoint) -> None:
    """Raise a RunError unless a checkpoint holds finite weights and a possible state."""
    path, state = checkpoint.path, checkpoint.state
    for part in PARTS:
        for name, array in getattr(checkpoint, part).items():
            if array.dtype.kind not in "fiu":
                raise RunError(f"{path}: {part}.{name} holds {array.dtype}, expected numbers")
            if part != "optimiser" and not np.isfinite(array).all():
                raise RunError(f"{path}: {part}.{name} holds values that are not finite; use another checkpoint")
    with refusing(OptionError, f"{path} has an impossible state: "):
        known = State.declarations().keys() & state.keys() if isinstance(state, Mapping) else ()
        step = State.from_flat({name: state[name] for name in known}).step
    if path is not None and (match := _NAME.fullmatch(path.name)) and int(match[1]) != step:
        raise RunError(f"{path} is the checkpoint of step {step}; rename it back")


def _checksum(arrays: Mapping[str, Any], state: str) -> str:
    """Return a checksum of names and contents; safetensors itself notices only a file that is too short."""
    total = zlib.crc32(state.encode())
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].reshape(-1).view(np.uint8), zlib.crc32(name.encode(), total))
    return f"{total:08x}"
