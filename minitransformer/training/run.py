"""A run folder: training writes it, translating reads it.

=======================  ================================================================================
``configuration.json``   the configuration of the run
``vocabulary.json``      the tokenisers of source and target
``data.json``            checksums of the texts and of the data made from them
``held_out.tsv``         held-out pairs, on which the model is evaluated: source, tab, target; or, of a model that
                         continues texts, ``held_out.txt``, a held-out text
``metrics.jsonl``        a line for each measurement during training
``checkpoints/``         the state of the training after some of its last steps, such as ``step-00000900.safetensors``:
                         weights, optimiser state, and the mean of the last steps' weights (prefixes ``model.``,
                         ``optimiser.`` and ``mean.``), and in its metadata step, random state, what the weights were
                         trained with (options and digests of the files above) and a checksum
``best.safetensors``     the best weights on held-out pairs during training
``average.safetensors``  the mean of the last checkpoints' weights, if requested
``*.png``                pictures
=======================  ================================================================================

Each file is written under another name and then renamed, so a killed process leaves no partial file. Only measurements
are appended; those after the last checkpoint are removed on resume. In a new run ``configuration.json`` is written last
before training, and it is removed first when a run is replaced: a folder that contains it is a run. Until then
``configuration.json.partial`` says that a run is being set up. The measurement of the result is written at the end.

The path to a run folder may contain symbolic links. Inside the folder, nothing is written or deleted through one.

A folder may have been edited, damaged or written by other people. Each file has one strict reader, whose messages name
the file. The reader accepts only regular files, JSON with values as a class of options declares them, and checkpoints
of finite numbers.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.data import MissingExtraError, tokenisers_to_json
from minitransformer.durable import (
    PARTIAL,
    flush_folder,
    is_partial,
    put_in_place,
    remove,
    remove_partial,
    write_durably,
)
from minitransformer.files import FileError, read_file, read_json
from minitransformer.options import OptionError
from minitransformer.tasks import Corpus, TextCorpus
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.training.checkpoints import Checkpoint, Checkpoints
from minitransformer.training.configuration import Configuration
from minitransformer.training.errors import RunError, writing
from minitransformer.training.measurements import Measurements
from minitransformer.training.options import TrainingOptions
from minitransformer.training.provenance import (
    DataRecord,
    digest_of_pairs,
    digest_of_text,
    digest_of_tokenisers,
    digests_of,
    held_out_file,
    provenance_of,
)

__all__ = ["RunFolder"]

CONFIGURATION = "configuration.json"
SETTING_UP = CONFIGURATION + PARTIAL
"""In a folder without a configuration: a run is being set up, or its process was killed during the setup."""
PAIRS, TEXT = HELD_OUT = ("held_out.tsv", "held_out.txt")
"""The file with what is held out: one of these."""
DERIVED = ("vocabulary.json", *HELD_OUT, "data.json")
"""The files that are computed from the configuration."""


class RunFolder:
    """A run folder. Its files do not change during training, except ``checkpoints`` and ``measurements``.

    Parameters
    ----------
    path : Path or str
        The path; the folder need not exist yet.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.measurements = Measurements(self.path / "metrics.jsonl")
        self.best_path = self.path / "best.safetensors"
        self.average_path = self.path / "average.safetensors"

    @classmethod
    def fresh(cls, name: str, root: Path | str = "runs") -> RunFolder:
        """Create the first of ``runs/name``, ``runs/name-2``, ... that does not exist yet, and return it.

        Raises
        ------
        RunError
            If it cannot be created.
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
        """Return whether something exists at the path.

        An empty folder does not count, nor one whose run never got beyond its setup.
        """
        if not self.path.is_dir():
            return self.path.exists()
        try:
            if all(is_partial(path) for path in self.path.iterdir()):
                return False
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error
        return not self._is_half_set_up() or bool(self.checkpoints.files())

    def _is_half_set_up(self) -> bool:
        """Return whether a process was killed here while it set up or replaced a run."""
        return (self.path / SETTING_UP).exists() and not (self.path / CONFIGURATION).exists()

    def refuse(self, overwrite: bool) -> None:
        """Raise a RunError if no run may begin at the path.

        Parameters
        ----------
        overwrite : bool
            Whether an existing run may be replaced. Nothing but a run is ever replaced.

        Raises
        ------
        RunError
            If something exists at the path.
        """
        if not self.holds_something():
            return
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out")
        if not overwrite:
            raise RunError(f"{self.path} exists already; choose another --out, or add --overwrite to replace the run")
        if not self._is_half_set_up() and not self.checkpoints.files():
            try:
                self.configuration()
            except RunError as error:
                raise RunError(
                    f"{self.path} contains files, but no run that can be replaced; choose another --out ({error})"
                ) from error

    def create(self, configuration: Configuration, corpus: Corpus | TextCorpus, overwrite: bool = False) -> None:
        """Create the folder and write the files that do not change during training.

        Raises
        ------
        RunError
            If something exists at the path and may not be overwritten, or the folder cannot be written.
        """
        self.refuse(overwrite)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            flush_folder(self.path.parent)
            self._write_json(SETTING_UP, configuration.flat())
            self._clear()
            self.complete(corpus)
            put_in_place(self.path / SETTING_UP, self.path / CONFIGURATION)
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror or error}") from error

    def _clear(self) -> None:
        """Remove an old run, its configuration first: after a kill, what is left does not count as a run."""
        remove(self.path / CONFIGURATION)
        flush_folder(self.path)
        self.checkpoints.clear()
        for path in (
            self.measurements.path,
            *(self.path / name for name in DERIVED),
            self.best_path,
            self.average_path,
            *(
                self.path / name
                for name in ("training.png", "attention.png", "parts.json", "parts.png", "with-and-without.png")
            ),
            *self.path.glob("attention-*.png"),
        ):
            remove(path)
        remove_partial(self.path, but=SETTING_UP)
        flush_folder(self.path)

    def complete(self, corpus: Corpus | TextCorpus) -> None:
        """Write the files that follow from the configuration: tokenisers, held-out data and checksums of the data."""
        self._write_json("vocabulary.json", tokenisers_to_json(corpus.source, corpus.target))
        name, text = held_out_file(corpus)
        write_durably(self.path / name, text.encode("utf-8"))
        self._write_json("data.json", DataRecord(files=corpus.files, fingerprint=corpus.fingerprint()).flat())

    def has(self, name: str) -> bool:
        """Return whether the folder has an entry of this name."""
        return (self.path / name).exists()

    def is_complete(self) -> bool:
        """Return whether all files that follow from the configuration exist; if not, the run ended during its setup."""
        return any(map(self.has, HELD_OUT)) and all(self.has(name) for name in DERIVED if name not in HELD_OUT)

    def configuration(self) -> Configuration:
        """Read the configuration."""
        gone = self.path.is_dir() and not (self.path / CONFIGURATION).exists()
        if gone and (self._is_half_set_up() or not self.holds_something()):
            raise RunError(
                f"{self.path} is not a whole run folder: {CONFIGURATION} is missing, for example because training was "
                f"stopped before its first step; start again with `minitransformer train --out {self.path} --overwrite`"
            )
        values = self._read_json(CONFIGURATION)
        try:
            return Configuration.from_flat(values)
        except (ValueError, TypeError) as error:
            raise RunError(f"{self.path / CONFIGURATION} is not a configuration: {error}") from error

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

    def check_weights(
        self, checkpoint: Checkpoint, configuration: Configuration, tokenisers: Tokenisers | None
    ) -> None:
        """Check that weights were trained with the configuration, vocabulary and held-out pairs of this folder.

        Checkpoints of earlier versions do not record it.

        Parameters
        ----------
        checkpoint : Checkpoint
            The weights.
        configuration : Configuration
            The configuration of this folder.
        tokenisers : pair of Tokeniser, optional
            The tokenisers of this folder, if its vocabulary exists.

        Raises
        ------
        RunError
            If something has changed, or the held-out pairs are damaged; the message names the file.
        """
        if (trained := provenance_of(checkpoint)) is None:
            return
        if changes := trained.changes(configuration):
            raise RunError(
                f"{self.path / CONFIGURATION} does not belong to the weights: {'; '.join(changes)}; restore "
                "the old values, or start a new run"
            )
        digests = {} if tokenisers is None else {"vocabulary.json": digest_of_tokenisers(tokenisers)}
        digests |= self._held_out_digest()
        for name, found in digests.items():
            if found != (wanted := trained.digests.get(name, found)):
                raise RunError(
                    f"{self.path / name} has changed since the weights were trained: its digest is {found[:12]}..., "
                    f"expected {wanted[:12]}...; restore the old file, or start a new run"
                )

    def check_data(self, corpus: Corpus | TextCorpus, checkpoint: Checkpoint | None = None) -> None:
        """Check data against the records in the run's files and checkpoint.

        Parameters
        ----------
        corpus : Corpus or TextCorpus
            The rebuilt data.
        checkpoint : Checkpoint, optional
            The checkpoint to resume from, if there is one.

        Raises
        ------
        RunError
            If the data has changed, or nothing in the folder can prove that it has not; the message names the file.
        """
        trained = checkpoint and provenance_of(checkpoint)
        if self.has("data.json"):
            checksums = self._data().files.values()
            for path, checksum in corpus.files.items():  # the data may have been moved
                if checksum not in checksums:
                    raise RunError(
                        f"{path} has changed since the run {self.path} began: data.json there has another checksum; "
                        "restore the old text, or start a new run"
                    )
        elif not trained:
            raise RunError(
                f"{self.path} is not a whole run folder: data.json is missing, and nothing else proves that the data "
                "is the data that the run started with; restore the file, or start a new run"
            )
        wanted = dict(trained.digests) if trained else {}
        wanted |= self._held_out_digest()
        if self.has("data.json"):
            wanted["data.json"] = self._data().fingerprint
        for name, digest in digests_of(corpus).items():
            if wanted.get(name, digest) != digest:
                raise RunError(
                    f"{self.path / name}{'' if self.has(name) else ' is missing'}: the data of the run {self.path} "
                    "cannot be made again as it was: this file, the vocabulary, a text or the version of a package has "
                    "changed; restore it, or start a new run"
                )

    def _data(self) -> DataRecord:
        try:
            return DataRecord.from_flat(self._read_json("data.json"))
        except OptionError as error:
            raise RunError(f"{self.path / 'data.json'} is damaged: {error}") from error

    def held_out(self) -> list[tuple[str, str]]:
        """Read the held-out pairs; a model of another program has none."""
        # splitlines would split at characters that a text may contain, such as U+2028
        text = self._read(PAIRS)
        lines = text.removesuffix("\n").split("\n") if text else []
        pairs = [tuple(line.split("\t")) for line in lines]
        bad = [i for i, pair in enumerate(pairs) if len(pair) != 2 or not all(pair)]
        if bad:
            where = f"line {bad[0] + 1}"
            raise RunError(f"{self.path / PAIRS}: {where} is not a source and a target with a tab between")
        return [(source, target) for source, target in pairs]

    def held_out_text(self) -> str:
        """Read the held-out text of a model that continues texts."""
        return self._read(TEXT)

    def _held_out_digest(self) -> dict[str, str]:
        """Return the digest of what is held out by the name of its file, if there is one."""
        found = {}
        if self.has(PAIRS):
            found[PAIRS] = digest_of_pairs(self.held_out())
        if self.has(TEXT):
            found[TEXT] = digest_of_text(self.held_out_text())
        return found

    def is_finished(self) -> bool:
        """Return whether training has ended and its result was measured."""
        return self.measurements.final() is not None

    def save(self, checkpoint: Checkpoint, options: TrainingOptions) -> Path:
        """Flush the measurements, then write a checkpoint, as `Checkpoints.save` does.

        The average is removed: it is no longer that of the last checkpoints.
        """
        self.measurements.flush()
        if self.average_path.exists():  # removed first: after a kill it must not lie beside a newer checkpoint
            remove(self.average_path)
            flush_folder(self.path)
        return self.checkpoints.save(checkpoint, options)

    def last_checkpoints(self, n: int) -> list[Path]:
        """Return the last n checkpoints, the oldest first; see `Checkpoints.last`."""
        final = self.measurements.final()
        return self.checkpoints.last(n, self.configuration().training, None if final is None else final["step"])

    def clean(self) -> None:
        """Remove unfinished files of killed processes.

        Raises
        ------
        RunError
            If that fails, as when ``checkpoints`` is a symbolic link.
        """
        with writing(self.path):
            self.checkpoints.clean()
            remove_partial(self.path)

    def _must_have(self, name: str) -> None:
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")
        if not self.has(name):
            raise RunError(f"{self.path} is not a whole run folder: {name} is missing")

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=np.generic.item) + "\n"  # NumPy's numbers
        write_durably(self.path / name, text.encode("utf-8"))

    def _read(self, name: str) -> str:
        self._must_have(name)
        try:
            return read_file(self.path / name).decode("utf-8")
        except FileError as error:
            raise RunError(f"{error}") from error
        except UnicodeDecodeError as error:
            raise RunError(f"cannot read {self.path / name}: {error}") from error

    def _read_json(self, name: str) -> Any:
        self._must_have(name)
        try:
            return read_json(self.path / name)
        except FileError as error:
            raise RunError(f"{error}; the file is damaged") from error
