"""Creating a run folder, or replacing the run in one."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.data import tokenisers_to_json
from minitransformer.durable import flush_folder, put_in_place, remove, remove_partial, write_durably
from minitransformer.files import reason
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError
from minitransformer.runs.folder import (
    ADAPTATION,
    CONFIGURATION,
    DATA,
    DERIVED,
    SETTING_UP,
    VOCABULARY,
    DataRecord,
    RunFolder,
)
from minitransformer.runs.provenance import held_out_file
from minitransformer.tasks import Corpus, TextCorpus

ADDED = ("training.png", "attention.png", "parts.json", "parts.png", "with-and-without.png", ADAPTATION)
"""The files that commands add to a run folder; ``attention`` numbers further pictures."""


def fresh_folder(name: str, root: Path | str = "runs") -> Path:
    """Create the first of ``runs/name``, ``runs/name-2``, ... that does not exist yet, and return its path.

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
        raise RunError(f"cannot make the run folder {path}: {reason(error)}") from error
    return path


def create_run(
    path: Path | str, configuration: Configuration, corpus: Corpus | TextCorpus, overwrite: bool = False
) -> RunFolder:
    """Create a run folder with the files that do not change during training, and return it.

    Parameters
    ----------
    path : Path or str
        The path of the folder.
    configuration : Configuration
        The configuration of the run, such as that of a `Trainer`.
    corpus : Corpus or TextCorpus
        The data of the run.
    overwrite : bool
        Whether an existing run may be replaced.

    Raises
    ------
    RunError
        If something exists at the path and may not be overwritten, or the folder cannot be written.
    """
    run = RunFolder(path)
    try:
        check_free(path, overwrite)
        run.path.mkdir(parents=True, exist_ok=True)
        flush_folder(run.path.parent)
        _write_json(run.path / SETTING_UP, configuration.flat())
        _clear(run)
        complete(run, corpus)
        put_in_place(run.path / SETTING_UP, run.path / CONFIGURATION)
    except OSError as error:
        raise RunError(f"cannot write the run folder {run.path}: {reason(error)}") from error
    return run


def check_free(path: Path | str, overwrite: bool) -> None:
    """Raise a RunError if no run may begin at a path.

    Parameters
    ----------
    path : Path or str
        The path.
    overwrite : bool
        Whether an existing run may be replaced. Nothing but a run is ever replaced.

    Raises
    ------
    RunError
        If something exists at the path.
    """
    run = RunFolder(path)
    if not holds_something(run):
        return
    if not run.path.is_dir():
        raise RunError(f"{run.path} is a file; choose another --out")
    if not overwrite:
        raise RunError(f"{run.path} exists already; choose another --out, or add --overwrite to replace the run")
    if not run.checkpoints.files():
        try:
            run.configuration()
        except RunError as error:
            raise RunError(
                f"{run.path} contains files, but no run that can be replaced; choose another --out ({error})"
            ) from error


def holds_something(run: RunFolder) -> bool:
    """Return whether something exists at the path of a run.

    An empty folder does not count, nor one whose run never got beyond its setup.
    """
    if not run.path.is_dir():
        return run.path.exists()
    half_made = run.has(SETTING_UP) and not run.has(CONFIGURATION)
    return not run.is_empty() and (not half_made or bool(run.checkpoints.files()))


def complete(run: RunFolder, corpus: Corpus | TextCorpus) -> None:
    """Write the files that follow from the configuration: tokenisers, held-out data and checksums of the data."""
    _write_json(run.path / VOCABULARY, tokenisers_to_json(corpus.source, corpus.target))
    name, text = held_out_file(corpus)
    write_durably(run.path / name, text.encode("utf-8"))
    _write_json(run.path / DATA, DataRecord(files=corpus.files, fingerprint=corpus.fingerprint()).flat())


def _clear(run: RunFolder) -> None:
    """Remove an old run, its configuration first: after a kill, what is left does not count as a run."""
    remove(run.path / CONFIGURATION)
    flush_folder(run.path)
    run.checkpoints.clear()
    run.history.clear()
    for path in (
        run.measurements.path,
        run.best_path,
        run.average_path,
        *(run.path / name for name in (*DERIVED, *ADDED)),
        *run.path.glob("attention-*.png"),
    ):
        remove(path)
    remove_partial(run.path, but=SETTING_UP)
    flush_folder(run.path)


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=np.generic.item) + "\n"  # NumPy's numbers
    write_durably(path, text.encode("utf-8"))
