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
configuration is written first: it alone is enough to make the others again. The measurement of the result comes last.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.data import MissingExtraError, normalise_text, tokenisers_to_json
from minitransformer.tasks import Corpus
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.training.checkpoints import Checkpoint, Checkpoints, RunError
from minitransformer.training.configuration import Configuration
from minitransformer.training.durable import PARTIAL, write_durably
from minitransformer.training.measurements import Measurements
from minitransformer.training.options import TrainingOptions

__all__ = ["RunFolder"]

DERIVED = ("vocabulary.json", "held_out.tsv", "data.json")
"""What the configuration alone decides."""


class RunFolder:
    """A run folder: what does not change during training; its ``checkpoints`` and ``measurements`` do.

    Parameters
    ----------
    path : Path or str
        Where it is, or is to be.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.measurements = Measurements(self.path / "metrics.jsonl")
        self.best_path = self.path / "best.safetensors"
        self.average_path = self.path / "average.safetensors"

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
        if not self.checkpoints.files():
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
            # The measurements go first: an old run that has lost something must not count as finished.
            for old in (
                self.measurements.path,
                *(self.path / name for name in DERIVED),
                *(path for _, path in self.checkpoints.files()),
                self.best_path,
                self.average_path,
                *(self.path / name for name in ("training.png", "attention.png")),
                *self.path.glob("attention-*.png"),
            ):
                old.unlink(missing_ok=True)
            self._write_json("configuration.json", configuration.flat())
            self.complete(corpus)
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror or error}") from error

    def complete(self, corpus: Corpus) -> None:
        """Write what the configuration decides: tokenisers, held-out pairs and checksums of the data."""
        self._write_json("vocabulary.json", tokenisers_to_json(corpus.source, corpus.target))
        text = "".join(f"{normalise_text(source)}\t{normalise_text(target)}\n" for source, target in corpus.held_out)
        write_durably(self.path / "held_out.tsv", text.encode("utf-8"))
        self._write_json("data.json", {"files": dict(corpus.files), "fingerprint": corpus.fingerprint()})

    def is_complete(self) -> bool:
        """Tell whether all is there that the configuration decides; if not, the run ended while it was being made."""
        return all((self.path / name).exists() for name in DERIVED)

    def configuration(self) -> Configuration:
        """Read the configuration."""
        values = self._read_json("configuration.json")
        try:
            return Configuration.from_flat(values)
        except (ValueError, TypeError) as error:
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

    def is_finished(self) -> bool:
        """Tell whether training has come to its end and the result was measured."""
        return self.measurements.final() is not None

    def save(self, checkpoint: Checkpoint, options: TrainingOptions) -> Path:
        """Write a checkpoint, as `Checkpoints.save` does, after the measurements before it.

        The average is removed: it is no longer that of the last checkpoints.
        """
        self.measurements.flush()
        path = self.checkpoints.save(checkpoint, options)
        self.average_path.unlink(missing_ok=True)
        return path

    def last_checkpoints(self, n: int) -> list[Path]:
        """Return the last n checkpoints, the oldest first; see `Checkpoints.last`."""
        return self.checkpoints.last(n, self.configuration().training, self.is_finished())

    def clean(self) -> None:
        """Remove what an end in the middle of writing has left behind."""
        for path in self.path.rglob(f"*{PARTIAL}"):
            path.unlink(missing_ok=True)

    def _must_exist(self) -> None:
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=np.generic.item) + "\n"  # NumPy's numbers
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
