"""Grade the submissions of a class: each exercise of each student in a process of its own, with limits."""

from __future__ import annotations

import ast
import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.learn.bank import MARKED, Exercise
from minitransformer.apps.learn.book import FOLDER
from minitransformer.apps.learn.calls import judge_apart
from minitransformer.apps.learn.language import said
from minitransformer.apps.learn.referee import Verdict, blame_the_check
from minitransformer.arrays import blas, using
from minitransformer.console import spell_out
from minitransformer.durable import write_whole
from minitransformer.files import FileError, read_file

SECONDS = 10.0
"""The default time limit of an exercise."""
LARGEST = 2**20
"""The largest file that is graded, in bytes."""
LONG = 40
"""An answer with more nodes of the syntax tree than this is compared with those of other students."""
LONGEST_COMPARED = 2**16
"""The largest file that is compared with those of other students, in bytes."""
DEEPEST = 30
"""How many folders inside each other are searched for files."""
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar")
PLATFORMS = re.compile(r".+?(_LATE)?_(?P<id>\d+)_(assignsubmission|\d+_).*")
"""The names of folders of submissions: Ada Lovelace_1815_assignsubmission_file, lovelaceada_1815_4711_archive."""
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
    saved : float
        When the last of these files was saved, in seconds since 1970.
    archives : sequence of str
        The names of archives that nobody has unpacked.
    """

    student: str
    files: Mapping[str, bytes | str]
    saved: float = 0.0
    archives: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """The verdicts on the exercises of one student, by the name of the exercise; None for a missing file."""

    student: str
    verdicts: Mapping[str, Verdict | None]
    archives: Sequence[str] = ()
    saved: float = 0.0

    @property
    def id(self) -> str:
        """The number by which Moodle or Canvas knows the student: it is in the name of the folder that they make."""
        found = PLATFORMS.fullmatch(self.student)
        return found["id"] if found else ""

    def points(self, weights: Mapping[str, float], partial: bool = False) -> float:
        """Return the sum of the weights of right answers; with ``partial``, a share of those of wrong ones."""
        shares = {name: one.share if partial else 0.0 for name, one in self.verdicts.items() if one and not one.right}
        return sum(weights[name] * (1.0 if self.state(name) == "right" else shares.get(name, 0.0)) for name in weights)

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
    archives = []
    for parent, folders, files in os.walk(folder):
        if "chapter.toml" in files:  # the sources of the exercises, in a clone of the repository
            folders.clear()
            continue
        if len(Path(parent).parts) - len(folder.parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        archives += sorted(name for name in files if name.endswith(ARCHIVES))
        for name in files:
            if match := re.fullmatch(r"\d\d_(\w+)\.py", name):
                places.setdefault(match[1].replace("_", "-"), []).append(Path(parent, name))
    found = folder.resolve()
    used = {one.name: _read(folder, one, places[one.name]) for one in exercises if one.name in places}
    saved = max((path.lstat().st_mtime for name in used for path in places[name]), default=0.0)
    return Submission((found.parent if found.name == FOLDER.name else found).name, used, saved, archives)


def _read(folder: Path, exercise: Exercise, places: list[Path]) -> bytes | str:
    """Return the contents of the file of an exercise, or why it cannot be read."""
    chapter = Path(exercise.file).parent.name
    ranks = [(path.parent.name != chapter, len(path.parts)) for path in places]
    best = [path for path, rank in zip(places, ranks, strict=True) if rank == min(ranks)]
    if len(best) > 1:
        names = " and ".join(sorted(path.relative_to(folder).as_posix() for path in best))
        return f"Found {len(best)} files for this exercise: {names}. Keep one."
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
            if not isinstance(text, bytes):
                verdicts[exercise.name] = None if text is None else Verdict(False, text)
            else:
                try:
                    verdicts[exercise.name] = judge_apart(exercise, text, seconds=seconds)
                except Exception as error:  # whatever the code has done: the other exercises are graded
                    verdicts[exercise.name] = blame_the_check(error)
    return Result(submission.student, verdicts, () if submission.files else submission.archives, submission.saved)


def weights_of(exercises: Sequence[Exercise]) -> dict[str, float]:
    """Return the weight of each exercise: 1, and 1 more for every five lines of its solution; 0 if it is optional."""
    lines = {one.name: "".join(place["solution"] for place in MARKED.finditer(one.source)) for one in exercises}
    weights = {name: 1.0 + sum(bool(line.strip()) for line in text.splitlines()) // 5 for name, text in lines.items()}
    return weights | {one.name: 0.0 for one in exercises if one.optional}


def equal_answers(submissions: Sequence[Submission], exercises: Sequence[Exercise]) -> dict[tuple[str, ...], list[str]]:
    """Return the students whose files are the same code after renaming, each group with the exercises.

    Short formulas often agree by chance, so only longer answers count. A solution that `learn solution` prints has
    itself as a member of its group.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for exercise in exercises:
        alike: dict[tuple[str, ...], list[str]] = {}
        least = LONG + len(_shape(exercise.text.encode()))
        texts = {one.student: one.files.get(exercise.name) for one in submissions}
        for student, text in (texts | {said("the printed solution"): exercise.solution.encode()}).items():
            if isinstance(text, bytes) and len(code := _shape(text)) > least:
                alike.setdefault(code, []).append(student)
        for students in alike.values():
            if len(students) > 1:
                groups.setdefault(tuple(students), []).append(exercise.name)
    return groups


def too_long_to_compare(submissions: Sequence[Submission]) -> dict[str, list[str]]:
    """Return the exercises whose files `equal_answers` does not compare, by student: their syntax trees may be huge."""
    long = {
        one.student: [
            name for name, text in one.files.items() if isinstance(text, bytes) and len(text) > LONGEST_COMPARED
        ]
        for one in submissions
    }
    return {student: names for student, names in long.items() if names}


def _shape(text: bytes) -> tuple[str, ...]:
    """Return the syntax tree of a file without its texts, each name replaced by its number: a description of each node.

    Nothing is returned for a file that is no Python, or too long for an answer.
    """
    if len(text) > LONGEST_COMPARED:
        return ()
    try:
        tree = ast.parse(text.decode("utf-8-sig"))  # in this encoding only, as the file is run
        return tuple(_describe(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a ValueError for a number of many digits too
        return ()


def _describe(tree: ast.Module) -> Iterator[str]:
    """Yield the kind of each node, with its fields and numbers of children, level by level: there is no recursion."""
    names: dict[str, int] = {}
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        words = [type(node).__name__]
        for kind, value in ast.iter_fields(node):
            if isinstance(value, str) and kind in ("id", "arg", "name"):
                words.append(f"{names.setdefault(value, len(names))}")
            else:
                parts = value if isinstance(value, list) else [value]
                words += [kind, *("*" if isinstance(part, ast.AST) else repr(part) for part in parts)]
        yield " ".join(words)


def write_feedback(result: Result, folder: Path) -> None:
    """Write what a student reads into a file in a folder of the submission's name, as Moodle takes it back."""
    texts = [said(f"not unpacked: {name}. Hand in the folder itself.") for name in result.archives]
    for name, verdict in result.verdicts.items():
        words = verdict.words if verdict and not verdict.right else ""
        texts.append(f"{said(f'{name}: {result.state(name)}.')} {words}".rstrip())
    place = folder / result.student
    place.mkdir(parents=True, exist_ok=True)
    write_whole(place / "feedback.txt", ("\n\n".join(spell_out(text, keep="\n") for text in texts) + "\n").encode())


def write_csv(
    results: Sequence[Result],
    weights: Mapping[str, float] | None = None,
    partial: bool = False,
    deadline: datetime | None = None,
) -> bytes:
    """Return the results as CSV, with one row for each student and one column for each exercise.

    Spreadsheets read it as UTF-8. No name of a folder becomes a formula in them.
    """
    names = list(results[0].verdicts)
    weights = weights or dict.fromkeys(names, 1.0)
    file = io.StringIO(newline="")
    table = csv.writer(file)
    table.writerow(["student", "right", "of", "id", "points", "of_points", "hours_late", *names])
    for result in results:
        right = len(result.names("right"))
        points = round(result.points(weights, partial), 2), sum(weights.values())
        row = [_cell(result.student), right, len(names), result.id, *points, hours_late(result, deadline)]
        table.writerow([*row, *map(result.state, names)])
    return file.getvalue().encode("utf-8-sig")


def hours_late(result: Result, deadline: datetime | None) -> float:
    """Return how many hours after the deadline the last file was saved; 0 if it was in time."""
    return round(max(0.0, result.saved - deadline.timestamp()) / 3600, 1) if deadline else 0.0


def _cell(name: str) -> str:
    shown = spell_out(name)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown
