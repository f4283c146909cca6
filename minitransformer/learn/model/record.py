"""Which parts of a run were whose: ``parts.json`` in the run folder, and the learner's functions back in their places.

The record holds names and checksums, and no code. Code is run from the learner's own folder only, never from a run
folder, which somebody else may have made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from minitransformer.durable import write_durably
from minitransformer.files import FileError, read_json
from minitransformer.learn.bank import find
from minitransformer.learn.model.parts import PARTS, Parts
from minitransformer.options import Options

__all__ = ["in_run", "record"]

FILE = "parts.json"


@dataclass(frozen=True, kw_only=True)
class Record(Options):
    """The contents of ``parts.json``."""

    folder: str
    """The learner's folder."""
    parts: Mapping[str, str]
    """The exercises that were parts of the model, each with the checksum of its file."""


def record(parts: Parts, run: Path) -> None:
    """Write down which parts of a run are the learner's."""
    digests = {name: _digest(parts.folder / find(name).file) for name in parts.functions}
    kept = Record(folder=str(parts.folder.resolve()), parts=digests)
    write_durably(run / FILE, (json.dumps(kept.flat(), indent=1) + "\n").encode())


def in_run(run: Path, own: Path | None, note: Callable[[str], None]) -> Parts | None:
    """Return the learner's parts of a run; None if there are none, or their folder is not the learner's own.

    Parameters
    ----------
    run : Path
        The run folder.
    own : Path, optional
        The learner's folder: that of ``--with``, or the one found from where they are.
    note : callable
        Told if the engine's functions are used after all, or an exercise has changed since.

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
    if own is None or own.resolve() != Path(kept.folder):
        note(
            f"{len(kept.parts)} parts of this run are functions in {kept.folder}; the engine's are used. "
            f"To use them again, add --with {kept.folder}"
        )
        return None
    if not own.is_dir():
        note(f"the folder {own}, whose functions trained this run, is gone; the engine's are used")
        return None
    parts = Parts.open(own, only=kept.parts)
    changed = [name for name in parts.functions if _digest(own / find(name).file) != kept.parts[name]]
    if changed:
        note(f"changed since this run was trained: {', '.join(changed)}")
    gone = sorted(kept.parts.keys() - parts.functions.keys())
    if gone:
        note(f"no longer solved, so the engine's are used: {', '.join(gone)}")
    return parts


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""
