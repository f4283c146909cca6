"""Grade the submissions of a class: each exercise of each student in a process of its own, with limits."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.learn.bank import Exercise
from minitransformer.apps.learn.calls import judge_apart
from minitransformer.apps.learn.referee import Verdict, blame_the_check
from minitransformer.arrays import blas, using
from minitransformer.console import spell_out
from minitransformer.files import FileError, read_file

SECONDS = 10.0
"""The default time limit of an exercise."""
LARGEST = 2**20
"""The largest file that is graded, in bytes."""
STATES = ("right", "wrong", "open", "missing", "failed")


@dataclass(frozen=True)
class Submission:
    """What a student handed in, read before any of it runs.

    Attributes
    ----------
    student : str
        The name of the folder.
    files : mapping of str to bytes or str
        By the name of the exercise: the contents of its file, or why it cannot be read.
    """

    student: str
    files: Mapping[str, bytes | str]


@dataclass(frozen=True)
class Result:
    """The verdicts on the exercises of one student, by the name of the exercise; None for a missing file."""

    student: str
    verdicts: Mapping[str, Verdict | None]

    def state(self, name: str) -> str:
        """Return one of ``STATES``."""
        verdict = self.verdicts[name]
        if verdict is None:
            return "missing"
        if verdict.failed:
            return "failed"
        return "right" if verdict.right else "wrong" if verdict.solved else "open"

    def names(self, state: str) -> list[str]:
        """Return the exercises in a state."""
        return [name for name in self.verdicts if self.state(name) == state]

    def describe(self) -> dict[str, Any]:
        """Return everything, for a file of JSON."""
        return {
            "student": spell_out(self.student),
            "right": len(self.names("right")),
            "of": len(self.verdicts),
            "exercises": {
                name: {"state": self.state(name), "words": spell_out(verdict.words, keep="\n") if verdict else ""}
                for name, verdict in self.verdicts.items()
            },
        }


def read_submissions(folder: Path, exercises: Sequence[Exercise]) -> list[Submission]:
    """Read the submissions of a class: one folder for each student.

    Raises
    ------
    FileError
        If there are none.
    """
    if not folder.is_dir():
        raise FileError(f"there is no folder {folder}, expected one with a folder for each student")
    if any((folder / exercise.file).parent.is_dir() for exercise in exercises):
        raise FileError(f"{folder} is one submission, expected a folder with a folder for each student")
    students = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))
    if not students:
        archives = "; unpack the archives first" if any(folder.glob("*.zip")) else ""
        raise FileError(f"{folder} contains no folders, expected one for each student{archives}")
    return [read_submission(path, exercises) for path in students]


def read_submission(folder: Path, exercises: Sequence[Exercise]) -> Submission:
    """Read the files of these exercises wherever they are in a folder.

    A file is known by its name. Of several, the one in a folder of its chapter counts, then the one that is least deep.
    """
    places: dict[str, list[Path]] = {}
    for parent, folders, files in os.walk(folder):
        if "chapter.toml" in files:  # the sources of the exercises, in a clone of the repository
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in files:
            if match := re.fullmatch(r"\d\d_(\w+)\.py", name):
                places.setdefault(match[1].replace("_", "-"), []).append(Path(parent, name))
    return Submission(
        folder.resolve().name,
        {one.name: _read(folder, one, places[one.name]) for one in exercises if one.name in places},
    )


def _read(folder: Path, exercise: Exercise, places: list[Path]) -> bytes | str:
    """Return the contents of the file of an exercise, or why it cannot be read."""
    chapter = Path(exercise.file).parent.name
    ranks = [(path.parent.name != chapter, len(path.parts)) for path in places]
    best = [path for path, rank in zip(places, ranks, strict=True) if rank == min(ranks)]
    if len(best) > 1:
        names = " and ".join(sorted(path.relative_to(folder).as_posix() for path in best))
        return f"The exercise is there {len(best)} times: {names}. Leave one."
    if best[0].is_symlink():
        return "The file is a symbolic link; hand in the file itself."
    try:
        return read_file(best[0], LARGEST)
    except FileError as error:
        return f"The file cannot be read: {error}"


def grade(submission: Submission, exercises: Sequence[Exercise], *, seconds: float = SECONDS) -> Result:
    """Judge what a student handed in.

    Parameters
    ----------
    submission : Submission
        The files.
    exercises : sequence of Exercise
        The exercises that are asked for.
    seconds : float
        When to stop the code of an exercise.
    """
    verdicts: dict[str, Verdict | None] = {}
    with using("numpy"), blas.threads(1), np.errstate(all="ignore"):
        for exercise in exercises:
            text = submission.files.get(exercise.name)
            if isinstance(text, str):
                verdicts[exercise.name] = Verdict(False, text)
            elif text is None:
                verdicts[exercise.name] = None
            else:
                try:
                    verdicts[exercise.name] = judge_apart(exercise, text, seconds=seconds)
                except Exception as error:  # whatever the code has done: the other exercises are graded
                    verdicts[exercise.name] = blame_the_check(error)
    return Result(submission.student, verdicts)


def write_csv(results: Sequence[Result]) -> bytes:
    """Return the results as CSV, with one row for each student and one column for each exercise.

    Spreadsheets read it as UTF-8. No name of a folder becomes a formula in them.
    """
    names = list(results[0].verdicts)
    file = io.StringIO(newline="")
    table = csv.writer(file)
    table.writerow(["student", "right", "of", *names])
    for result in results:
        right = len(result.names("right"))
        table.writerow([_cell(result.student), right, len(names), *map(result.state, names)])
    return file.getvalue().encode("utf-8-sig")


def _cell(name: str) -> str:
    shown = spell_out(name)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown
