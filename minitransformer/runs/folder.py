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
``history/``             the weights alone at 20 steps or more, to watch training later; of large models there are none
``best.safetensors``     the best weights on held-out pairs during training
``average.safetensors``  the mean of the last checkpoints' weights, if requested
``parts.json``           which parts of the model were a learner's own functions, if any were
``adaptation.json``      the scores of a model before and after it was trained on; until the end, those before
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
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minitransformer import durable
from minitransformer.files import FileError, read_file, read_json, reason
from minitransformer.options import OptionError, Options
from minitransformer.runs.checkpoints import Checkpoint, Checkpoints, write_checkpoint
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError, refusing, writing
from minitransformer.runs.measurements import Measurements
from minitransformer.runs.options import TrainingOptions
from minitransformer.tasks.corpus import Tokenisers

CONFIGURATION = "configuration.json"
SETTING_UP = CONFIGURATION + durable.PARTIAL
"""Marks a folder in which a run is being set up, or whose process was killed during the setup."""
PAIRS, TEXT = HELD_OUT = ("held_out.tsv", "held_out.txt")
"""The names of the file with held-out data; a run has one of them."""
VOCABULARY, DATA, ADAPTATION = "vocabulary.json", "data.json", "adaptation.json"
OWN_PARTS = "parts.json"
DERIVED = (VOCABULARY, *HELD_OUT, DATA)
"""The files that are computed from the configuration."""


@dataclass(frozen=True, kw_only=True)
class DataRecord(Options):
    """The contents of data.json: checksums of the texts by path, and one of the data made from them."""

    files: Mapping[str, str]
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class BeforeAndAfter(Options):
    """The scores of a model before and after it was trained on, by name; before the end there are none after."""

    before: Mapping[str, float]
    after: Mapping[str, float] = field(default_factory=dict)


class RunFolder:
    """A run folder. Its files do not change during training, except ``checkpoints``, ``history`` and ``measurements``.

    Parameters
    ----------
    path : Path or str
        The path; the folder need not exist yet.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.history = Checkpoints(self.path / "history")
        """Weights alone, at some steps: to look at, not to resume from."""
        self.measurements = Measurements(self.path / "metrics.jsonl")
        self.best_path = self.path / "best.safetensors"
        self.average_path = self.path / "average.safetensors"

    def has(self, name: str) -> bool:
        """Return whether the folder has an entry of this name."""
        return (self.path / name).exists()

    def is_empty(self) -> bool:
        """Return whether the folder has no entries, except unfinished files of killed processes."""
        try:
            return all(map(durable.is_partial, self.path.iterdir()))
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {reason(error)}") from error

    def is_complete(self) -> bool:
        """Return whether all files that follow from the configuration exist; if not, the run ended during its setup."""
        return any(map(self.has, HELD_OUT)) and all(self.has(name) for name in DERIVED if name not in HELD_OUT)

    def configuration(self) -> Configuration:
        """Read the configuration; a start that is gone is looked for beside the run, as both may have been moved."""
        gone = self.path.is_dir() and not self.has(CONFIGURATION)
        if gone and (self.has(SETTING_UP) or self.is_empty()):
            raise RunError(
                f"{self.path} is not a complete run folder: {CONFIGURATION} is missing, for example because training "
                "was stopped before its first step; start again with "
                f"`minitransformer train --out {self.path} --overwrite`"
            )
        values = self._read_json(CONFIGURATION)
        with refusing((ValueError, TypeError), f"{self.path / CONFIGURATION} is not a configuration: "):
            configuration = Configuration.from_flat(values)
        if not configuration.start or os.path.exists(configuration.start):
            return configuration
        beside = self.path.absolute().parent / Path(configuration.start).name  # a digest tells whether it is the same
        moved = os.path.exists(beside) and beside != self.path.absolute()
        return configuration.changed(start=str(beside)) if moved else configuration

    def tokenisers(self) -> Tokenisers:
        """Read the tokenisers of source and target."""
        configuration, value = self.configuration(), self._read_json(VOCABULARY)
        before = f"{self.path / VOCABULARY} does not hold the vocabularies of this run: "
        with refusing((ValueError, TypeError, KeyError), before):
            return configuration.build_task().read_tokenisers(value)

    def data_record(self) -> DataRecord:
        """Read the checksums of the data."""
        with refusing(OptionError, f"{self.path / DATA} is damaged: "):
            return DataRecord.from_flat(self._read_json(DATA))

    def adaptation(self) -> dict[str, BeforeAndAfter]:
        """Read the scores before and after by what was measured; there are none unless the model was trained on."""
        values = self._read_json(ADAPTATION) if self.has(ADAPTATION) else {}
        with refusing(OptionError, f"{self.path / ADAPTATION} is damaged: "):
            if not isinstance(values, Mapping):
                raise OptionError(f"found {type(values).__name__}, expected a table of scores")
            return {what: BeforeAndAfter.from_flat(scores) for what, scores in values.items()}

    def write_adaptation(self, scores: Mapping[str, BeforeAndAfter]) -> None:
        """Write the scores before and after, as `adaptation` reads them."""
        text = json.dumps({what: both.flat() for what, both in scores.items()}, indent=1) + "\n"
        with writing(self.path):
            durable.write_durably(self.path / ADAPTATION, text.encode())

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

    def is_finished(self) -> bool:
        """Return whether training has ended and its result was measured."""
        return self.measurements.final() is not None

    def save(self, checkpoint: Checkpoint, options: TrainingOptions) -> Path:
        """Flush the measurements, then write a checkpoint, as `Checkpoints.save` does.

        The average is removed: it is no longer that of the last checkpoints.
        """
        self.measurements.flush()
        if self.average_path.exists():  # removed first: after a kill it must not lie beside a newer checkpoint
            durable.remove(self.average_path)
            durable.flush_folder(self.path)
        return self.checkpoints.save(checkpoint, options)

    def remember(self, checkpoint: Checkpoint) -> None:
        """Write weights into the history."""
        with writing(self.path):
            self.history.path.mkdir(exist_ok=True)
            durable.check_folder(self.history.path)
        write_checkpoint(self.history.file(checkpoint.state["step"]), checkpoint, durable=False)

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
            self.history.clean()
            self.checkpoints.clean()
            durable.remove_partial(self.path)

    def _must_have(self, name: str) -> None:
        if not self.path.is_dir():
            raise RunError(f"there is no run folder {self.path}")
        if not self.has(name):
            raise RunError(f"{self.path} is not a complete run folder: {name} is missing")

    def _read(self, name: str) -> str:
        self._must_have(name)
        with refusing(FileError), refusing(UnicodeDecodeError, f"cannot read {self.path / name}: "):
            return read_file(self.path / name).decode("utf-8")

    def _read_json(self, name: str) -> Any:
        self._must_have(name)
        with refusing(FileError, after="; the file is damaged"):
            return read_json(self.path / name)
