"""A run folder: what training leaves behind, and what translating reads.

=========================  ==============================================================================
``configuration.json``     everything that the run depends on
``vocabulary.json``        the tokens of source and target, in the order of their ids
``held_out.tsv``           the pairs that are never trained on: source, tab, target
``metrics.jsonl``          a line for each measurement during training
``checkpoint.safetensors`` weights, optimiser state, the mean of the last steps' weights (``model.``, ``optimiser.`` and
                           ``mean.`` before each name), and in its metadata step and random state
``*.png``                  pictures
=========================  ==============================================================================

A checkpoint is one file, written aside and then renamed, so that whatever happens there is a whole one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from minitransformer.data import Vocabulary
from minitransformer.training.configuration import Configuration

__all__ = ["Checkpoint", "RunError", "RunFolder"]


class RunError(RuntimeError):
    """A run folder is missing, incomplete or damaged, or is in the way."""


class Checkpoint(NamedTuple):
    """The state of a training."""

    model: dict[str, Any]
    optimiser: dict[str, Any]
    mean: dict[str, Any]
    """The mean of the last steps' weights, which is what translates; empty before training gets there."""
    state: dict[str, Any]
    """Step, random state, and so on: plain values."""


class RunFolder:
    """A run folder.

    Parameters
    ----------
    path : Path or str
        Where it is, or is to be.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoint_path = self.path / "checkpoint.safetensors"
        self.metrics_path = self.path / "metrics.jsonl"

    @classmethod
    def fresh(cls, name: str, root: Path | str = "runs") -> RunFolder:
        """Return a folder that does not exist yet: ``runs/name``, ``runs/name-2``, and so on."""
        path, n = Path(root) / name, 1
        while path.exists():
            n += 1
            path = Path(root) / f"{name}-{n}"
        return cls(path)

    def holds_something(self) -> bool:
        """Tell whether there is something at the path already, other than an empty folder."""
        return self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir()))

    def create(
        self,
        configuration: Configuration,
        source: Vocabulary,
        target: Vocabulary,
        held_out: list[tuple[str, str]],
        overwrite: bool = False,
    ) -> None:
        """Make the folder and write what does not change during training.

        Raises
        ------
        RunError
            If there is something at the path already and it is not to be overwritten, or it cannot be written.
        """
        if self.holds_something() and not overwrite:
            raise RunError(f"{self.path} exists already; choose another --out, or add --overwrite to replace the run")
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for old in (self.checkpoint_path, self.metrics_path, *self.path.glob("*.png")):
                old.unlink(missing_ok=True)
            self._write_json("configuration.json", configuration.to_json())
            self._write_json("vocabulary.json", {"source": source.to_json(), "target": target.to_json()})
            text = "".join(f"{source_text}\t{target_text}\n" for source_text, target_text in held_out)
            (self.path / "held_out.tsv").write_text(text, encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror or error}") from error

    def configuration(self) -> Configuration:
        """Read the configuration."""
        values = self._read_json("configuration.json")
        try:
            return Configuration.from_json(values)
        except (ValueError, TypeError, AttributeError) as error:
            raise RunError(f"{self.path / 'configuration.json'} is not a configuration: {error}") from error

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Read the vocabularies of source and target."""
        values = self._read_json("vocabulary.json")
        try:
            return Vocabulary.from_json(values["source"]), Vocabulary.from_json(values["target"])
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"{self.path / 'vocabulary.json'} does not hold two vocabularies: {error}") from error

    def held_out(self) -> list[tuple[str, str]]:
        """Read the pairs that were never trained on."""
        lines = self._read("held_out.tsv").splitlines()
        pairs = [tuple(line.split("\t")) for line in lines]
        bad = [i for i, pair in enumerate(pairs) if len(pair) != 2]
        if bad or not pairs:
            where = f"line {bad[0] + 1}" if bad else "the file"
            raise RunError(f"{self.path / 'held_out.tsv'}: {where} is not a source and a target with a tab between")
        return [(source, target) for source, target in pairs]

    def metrics(self) -> list[dict[str, Any]]:
        """Read the measurements that training made."""
        return [json.loads(line) for line in self._read("metrics.jsonl").splitlines()]

    def log(self, measurement: Mapping[str, Any]) -> None:
        """Append a measurement."""
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measurement) + "\n")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint aside, flush it to the disk, and put it in the place of the one before."""
        arrays = {f"model.{name}": array for name, array in checkpoint.model.items()}
        arrays |= {f"optimiser.{name}": array for name, array in checkpoint.optimiser.items()}
        arrays |= {f"mean.{name}": array for name, array in checkpoint.mean.items()}
        # safetensors 0.8.0 writes the memory of an array that is not contiguous under its logical shape.
        arrays = {name: np.require(array, requirements="C") for name, array in arrays.items()}
        aside = self.checkpoint_path.with_suffix(".partial")
        try:
            with aside.open("wb") as file:
                file.write(save(arrays, metadata={"state": json.dumps(checkpoint.state)}))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.checkpoint_path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise RunError(
                f"cannot save the checkpoint {self.checkpoint_path}: {error.strerror or error}; the one before is kept"
            ) from error

    def load(self) -> Checkpoint:
        """Read the checkpoint.

        Raises
        ------
        RunError
            If there is none or it is damaged.
        """
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")
        if not self.checkpoint_path.exists():
            raise RunError(f"{self.path} has no checkpoint.safetensors: training has not saved anything yet")
        try:
            with safe_open(self.checkpoint_path, framework="numpy") as file:
                state = json.loads(file.metadata()["state"])
                parts: dict[str, dict[str, Any]] = {"model": {}, "optimiser": {}, "mean": {}}
                for key in file.keys():  # noqa: SIM118  (not a mapping)
                    part, _, name = key.partition(".")
                    parts[part][name] = file.get_tensor(key)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.checkpoint_path} is damaged or not a checkpoint of this program: {error}") from error
        return Checkpoint(parts["model"], parts["optimiser"], parts["mean"], state)

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        (self.path / name).write_text(text, encoding="utf-8")

    def _read(self, name: str) -> str:
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise RunError(f"{self.path} is not a whole run folder: {name} is missing") from error
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"cannot read {self.path / name}: {error}") from error

    def _read_json(self, name: str) -> Any:
        try:
            return json.loads(self._read(name))
        except json.JSONDecodeError as error:
            raise RunError(f"{self.path / name} is damaged: {error}") from error
