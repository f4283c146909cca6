"""The parts of a run that are the learner's: ``parts.json`` in the run folder, and loading these functions again.

The record holds names and checksums, and no code. Code is run from the learner's own folder only, never from a run
folder, which somebody else may have made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from minitransformer.apps.learn.bank import find
from minitransformer.apps.learn.model.parts import PARTS, Parts
from minitransformer.durable import write_durably
from minitransformer.files import FileError, read_json
from minitransformer.options import Options
from minitransformer.runs import OWN_PARTS as FILE


@dataclass(frozen=True, kw_only=True)
class Record(Options):
    """The contents of ``parts.json``."""

    folder: str
    """The learner's folder."""
    parts: Mapping[str, str]
    """The exercises that were parts of the model, each with the checksum of its file."""

    def open(self, own: Path) -> Parts:
        """Load the functions again, from a learner's folder."""
        return Parts.open(own, self.parts)

    def edited(self, parts: Parts) -> list[str]:
        """Return the exercises whose files have changed since."""
        return [name for name in parts.functions if _digest(parts.folder / find(name).file) != self.parts[name]]

    def gone(self, parts: Parts) -> list[str]:
        """Return the exercises that were solved then, and are not now."""
        return sorted(self.parts.keys() - parts.functions.keys())


def record(parts: Parts, run: Path) -> None:
    """Record which parts of a run are the learner's."""
    digests = {name: _digest(parts.folder / find(name).file) for name in parts.functions}
    kept = Record(folder=str(parts.folder.resolve()), parts=digests)
    write_durably(run / FILE, (json.dumps(kept.flat(), indent=1) + "\n").encode())


def read_record(run: Path) -> Record | None:
    """Return the record of the learner's parts of a run; None if there is none.

    Raises
    ------
    FileError
        If the record is damaged.
    """
    if not (run / FILE).exists():
        return None
    try:
        kept = Record.from_flat(read_json(run / FILE))
        if unknown := sorted(kept.parts.keys() - {*PARTS}):
            raise ValueError(f"{unknown[0]!r} is no part of the model")
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"{run / FILE}: {error}") from error
    return kept


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""
