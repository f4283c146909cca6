"""A run folder: what training leaves behind, and what translating reads.

=======================  ================================================================================
``configuration.json``   everything that the run depends on
``vocabulary.json``      the tokenisers of source and target
``data.json``            checksums of the files that were read and of what was made of them
``held_out.tsv``         pairs that are never trained on, to measure the model on: source, tab, target
``metrics.jsonl``        a line for each measurement during training
``checkpoints/``         the state of the training after some of its last steps, such as ``step-00000900.safetensors``:
                         weights, optimiser state, and the mean of the last steps' weights (``model.``, ``optimiser.``
                         and ``mean.`` before each name), and in its metadata step, random state and a checksum
``best.safetensors``     the weights that did best on held-out pairs during training
``average.safetensors``  the mean of the last checkpoints' weights, if it was asked for
``*.png``                pictures
=======================  ================================================================================

Each file but the pictures is written aside and then renamed, so that whatever happens there is a whole one; only the
measurements are appended, and those after the last checkpoint are cut off when the run goes on from there. The
configuration is written first: it alone is enough to make the others again. The measurement of the end comes last.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from minitransformer.data import MissingExtraError, even, tokenisers_to_json
from minitransformer.tasks import Corpus
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.training.checkpoints import (
    Checkpoint,
    RunError,
    checkpoint_files,
    checkpoint_name,
    read_checkpoint,
    remove_partial,
    write_checkpoint,
)
from minitransformer.training.configuration import Configuration
from minitransformer.training.durable import flush_to_disk, write_durably

__all__ = ["Report", "RunFolder", "warn"]

MADE = ("vocabulary.json", "held_out.tsv", "data.json")
"""What the configuration alone decides."""

Report = Callable[[str], None]


def warn(message: str) -> None:
    """Report something as a warning."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class RunFolder:
    """A run folder.

    Parameters
    ----------
    path : Path or str
        Where it is, or is to be.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoints_path = self.path / "checkpoints"
        self.best_path = self.path / "best.safetensors"
        self.average_path = self.path / "average.safetensors"
        self.metrics_path = self.path / "metrics.jsonl"

    @classmethod
    def fresh(cls, name: str, root: Path | str = "runs") -> RunFolder:
        """Make the first folder that does not exist yet, of ``runs/name``, ``runs/name-2``, and so on; return it.

        Raises
        ------
        RunError
            If it cannot be made.
        """
        path = Path(root)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for n in count(1):
                path = Path(root) / (name if n == 1 else f"{name}-{n}")
                with suppress(FileExistsError):
                    path.mkdir()
                    break
        except OSError as error:
            raise RunError(f"cannot make the run folder {path}: {error.strerror or error}") from error
        return cls(path)

    def holds_something(self) -> bool:
        """Tell whether there is something at the path already, other than an empty folder."""
        try:
            return self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir()))
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error

    def refuse(self, overwrite: bool) -> None:
        """Refuse a place at which no run may be begun.

        Parameters
        ----------
        overwrite : bool
            Whether a run that is there may be replaced. What is no run never is.

        Raises
        ------
        RunError
            If there is something at the path already.
        """
        if not self.holds_something():
            return
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out")
        if not overwrite:
            raise RunError(f"{self.path} exists already; choose another --out, or add --overwrite to replace the run")
        if not self.has_checkpoint():
            try:
                self.configuration()
            except RunError as error:
                raise RunError(
                    f"{self.path} holds something, but no run that could be replaced; choose another --out ({error})"
                ) from error

    def create(self, configuration: Configuration, corpus: Corpus, overwrite: bool = False) -> None:
        """Make the folder and write what does not change during training.

        Raises
        ------
        RunError
            If there is something at the path already and it is not to be overwritten, or it cannot be written.
        """
        self.refuse(overwrite)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # The old configuration stays until all this is gone: at every moment the folder is one run or the other.
            checkpoints = [path for _, path in checkpoint_files(self.checkpoints_path)]
            for old in (
                *(self.path / name for name in MADE),
                *checkpoints,
                self.best_path,
                self.average_path,
                self.metrics_path,
                *(self.path / name for name in ("training.png", "attention.png")),
                *self.path.glob("attention-*.png"),
            ):
                old.unlink(missing_ok=True)
            self._write_json("configuration.json", configuration.to_json())
            self.complete(corpus)
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror or error}") from error

    def complete(self, corpus: Corpus) -> None:
        """Write what the configuration decides: tokenisers, held-out pairs and checksums of the data."""
        self._write_json("vocabulary.json", tokenisers_to_json(corpus.source, corpus.target))
        text = "".join(f"{even(source)}\t{even(target)}\n" for source, target in corpus.held_out)
        write_durably(self.path / "held_out.tsv", text.encode("utf-8"))
        self._write_json("data.json", {"files": dict(corpus.files), "fingerprint": corpus.fingerprint()})

    def is_complete(self) -> bool:
        """Tell whether all is there that the configuration decides; if not, the run ended while it was being made."""
        return all((self.path / name).exists() for name in MADE)

    def has_checkpoint(self) -> bool:
        """Tell whether training has saved anything, damaged or not."""
        return bool(checkpoint_files(self.checkpoints_path))

    def configuration(self) -> Configuration:
        """Read the configuration."""
        values = self._read_json("configuration.json")
        try:
            return Configuration.from_json(values)
        except (ValueError, TypeError, AttributeError) as error:
            raise RunError(f"{self.path / 'configuration.json'} is not a configuration: {error}") from error

    def tokenisers(self) -> Tokenisers:
        """Read the tokenisers of source and target."""
        configuration, value = self.configuration(), self._read_json("vocabulary.json")
        try:
            return configuration.build_task().read_tokenisers(value)
        except MissingExtraError:
            raise
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"{self.path / 'vocabulary.json'} does not hold the vocabularies of this run: {error}"
            ) from error

    def check_data(self, corpus: Corpus) -> None:
        """Check that data is what the run was begun with.

        Raises
        ------
        RunError
            If it is not; a file that has changed is named.
        """
        value = self._read_json("data.json")
        try:
            files, fingerprint = dict(value["files"]), value["fingerprint"]
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.path / 'data.json'} is damaged: {error}") from error
        for path, checksum in corpus.files.items():
            if files.get(path) != checksum:
                raise RunError(
                    f"{path} has changed since the run {self.path} began; put back the text that it had, or begin a "
                    "new run"
                )
        if corpus.fingerprint() != fingerprint:
            raise RunError(
                f"the data of the run {self.path} cannot be made again: what it is made by has changed, such as the "
                "version of a package or the vocabulary; begin a new run"
            )

    def held_out(self) -> list[tuple[str, str]]:
        """Read the pairs that were never trained on."""
        # splitlines would split at characters that may stand inside a text, such as U+2028
        lines = self._read("held_out.tsv").removesuffix("\n").split("\n")
        pairs = [tuple(line.split("\t")) for line in lines]
        bad = [i for i, pair in enumerate(pairs) if len(pair) != 2]
        if bad:
            where = f"line {bad[0] + 1}"
            raise RunError(f"{self.path / 'held_out.tsv'}: {where} is not a source and a target with a tab between")
        return [(source, target) for source, target in pairs]

    def metrics(self) -> list[dict[str, Any]]:
        """Read the measurements that training made."""
        return [json.loads(line) for line in self._read("metrics.jsonl").splitlines()]

    def log(self, measurement: Mapping[str, Any]) -> None:
        """Append a measurement."""
        try:
            with self.metrics_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(measurement) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self.metrics_path}: {error.strerror or error}") from error

    def is_finished(self) -> bool:
        """Tell whether training has come to its end and the result was measured."""
        return self.metrics_path.exists() and any(line.get("final") for line in self._measurements())

    def cut_metrics(self, step: int) -> None:
        """Drop the measurements after a step, those of the end too, and a line that was cut short."""
        if not self.metrics_path.exists():
            return
        kept = [line for line in self._measurements() if line["step"] <= step and not line.get("final")]
        text = "".join(f"{json.dumps(line)}\n" for line in kept)
        try:
            write_durably(self.metrics_path, text.encode("utf-8"))
        except OSError as error:
            raise RunError(f"cannot write {self.metrics_path}: {error.strerror or error}") from error

    def _measurements(self) -> Iterator[dict[str, Any]]:
        """Yield the measurements but for a line that was cut short, or is none."""
        for line in self.metrics_path.read_bytes().split(b"\n"):
            with suppress(ValueError):
                if isinstance(value := json.loads(line), dict) and "step" in value:
                    yield value

    def save(self, checkpoint: Checkpoint, keep: int = 1) -> Path:
        """Write a checkpoint, and then remove old ones, and the average, which was of those.

        Parameters
        ----------
        checkpoint : Checkpoint
            The state of the training; ``state["step"]`` names the file.
        keep : int
            How many are to be kept, this one included. One that was saved between others, because of an interruption,
            removes none, and is removed by the next.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RunError
            If it cannot be written; the one before is kept.
        """
        path = self.checkpoints_path / checkpoint_name(checkpoint.state["step"])
        self._flush_metrics()
        write_checkpoint(path, checkpoint)
        self.average_path.unlink(missing_ok=True)  # it is no longer that of the last checkpoints
        regular = self._regular()
        if path in regular:
            for _, file in checkpoint_files(self.checkpoints_path):
                if file not in regular[-keep:]:
                    file.unlink(missing_ok=True)
        return path

    def _regular(self) -> list[Path]:
        """Return the checkpoints but those that were saved between others, so that an interruption changes nothing.

        The last one of a run that is finished counts wherever it is: so it ends if it stops early.
        """
        configuration, files = self.configuration(), checkpoint_files(self.checkpoints_path)
        end = files[-1][0] if files and self.is_finished() else None
        return [path for step, path in files if configuration.saves_at(step) or step == end]

    def last_checkpoints(self, n: int) -> list[Path]:
        """Return the last n checkpoints, but for the initial weights and what was saved between others, oldest first.

        Raises
        ------
        RunError
            If there are fewer.
        """
        self._must_exist()
        files = [path for path in self._regular() if path.name != checkpoint_name(0)]
        if len(files) < n:
            raise RunError(
                f"{self.checkpoints_path} has {len(files)} checkpoints, expected {n}; average fewer, or train with "
                f"--keep {n}"
            )
        return files[len(files) - n :]

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
        self._must_exist()
        files = [path for _, path in reversed(checkpoint_files(self.checkpoints_path))]
        if not self.has_checkpoint():
            raise RunError(f"{self.path} has no checkpoint: training has not saved anything yet")
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

    def clean(self) -> None:
        """Remove what an end in the middle of writing has left behind."""
        for folder in (self.path, self.checkpoints_path):
            remove_partial(folder)

    def _flush_metrics(self) -> None:
        if self.metrics_path.exists():
            with self.metrics_path.open("ab") as file:
                flush_to_disk(file.fileno())

    def _must_exist(self) -> None:
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        write_durably(self.path / name, text.encode("utf-8"))

    def _read(self, name: str) -> str:
        self._must_exist()
        try:
            return (self.path / name).read_bytes().decode("utf-8")
        except FileNotFoundError as error:
            raise RunError(f"{self.path} is not a whole run folder: {name} is missing") from error
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"cannot read {self.path / name}: {error}") from error

    def _read_json(self, name: str) -> Any:
        try:
            return json.loads(self._read(name))
        except json.JSONDecodeError as error:
            raise RunError(f"{self.path / name} is damaged: {error}") from error
