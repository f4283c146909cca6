"""A course of nine weeks, planned from the tutorials, the exercises and the clinic.

``course.toml`` lists each week's tutorials, broken scripts, lab and questions, and the texts of the plan. An exercise
belongs to the week of the tutorial that teaches it, so each exercise appears exactly once.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minitransformer.apps.learn.bank import FOOTER, Exercise, bank
from minitransformer.apps.learn.grading import weights_of
from minitransformer.apps.learn.language import fill, said
from minitransformer.durable import write_whole

DATA = Path(__file__).with_suffix(".toml")
WORDS, LINES, ANSWER, SCRIPT = 180, 12, 5, 15
"""Words and lines of code that are read in a minute; minutes for an answer, and for a broken script."""


@dataclass(frozen=True)
class Tutorial:
    """A tutorial, as its own head describes it."""

    name: str
    title: str
    reading: int
    """Minutes of reading."""
    doing: int
    """Minutes for the answers in its cells."""
    cells: Sequence[str]
    """The exercises that are also cells of its notebook."""
    goals: Sequence[str]

    @property
    def number(self) -> int:
        """The number that opens it."""
        return int(self.name[:2])


@dataclass(frozen=True)
class Lab:
    """Commands to run, and what to observe."""

    title: str
    minutes: int
    commands: Sequence[str]
    observe: str


@dataclass(frozen=True)
class Week:
    """One week of the course."""

    number: int
    title: str
    tutorials: Sequence[Tutorial]
    exercises: Sequence[Exercise]
    optional: Sequence[Exercise]
    broken_scripts: Sequence[int]
    """The numbers of the broken scripts of the clinic."""
    lab: Lab
    questions: Sequence[str]

    @property
    def times(self) -> tuple[int, int]:
        """How long a student needs to read and to do all but the optional, in minutes."""
        cells = {name for tutorial in self.tutorials for name in tutorial.cells}
        reading, doing = _sum(minutes_of(one) for one in self.exercises if one.name not in cells)
        reading += sum(tutorial.reading for tutorial in self.tutorials)
        doing += (
            sum(tutorial.doing for tutorial in self.tutorials) + SCRIPT * len(self.broken_scripts) + self.lab.minutes
        )
        return round(reading), round(doing)

    @property
    def hours(self) -> tuple[float, float]:
        """The same in hours."""
        return self.times[0] / 60, self.times[1] / 60


def minutes(words: int, lines: int, answers: int) -> tuple[float, float]:
    """Return how long a text takes: the minutes of reading and of doing."""
    return words / WORDS + lines / LINES, ANSWER * answers


def minutes_of(exercise: Exercise) -> tuple[float, float]:
    """Return the minutes to read an exercise's file and to answer it."""
    _, words, code = exercise.text.removesuffix(FOOTER).split('"""', 2)
    return minutes(len(words.split()), sum(bool(line.strip()) for line in code.splitlines()), 1)


def _sum(times: Iterable[tuple[float, float]]) -> tuple[float, float]:
    found = [*times]
    return sum(reading for reading, _ in found), sum(doing for _, doing in found)


@cache
def _data() -> dict[str, Any]:
    """Return what the course's file contains."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


@cache
def weeks() -> tuple[Week, ...]:
    """Return the weeks of the course."""
    data = _data()
    tutorials = {name: Tutorial(name, **entry) for name, entry in data["tutorials"].items()}
    return tuple(
        Week(
            number,
            week["title"],
            [tutorials[name] for name in week["tutorials"]],
            [one for one in _taught_by(week["tutorials"]) if not one.optional],
            [one for one in _taught_by(week["tutorials"]) if one.optional],
            week["broken_scripts"],
            Lab(**week["lab"]),
            week["questions"],
        )
        for number, week in enumerate(data["week"], start=1)
    )


def _taught_by(tutorials: Collection[str]) -> list[Exercise]:
    return [exercise for exercise in bank() if exercise.tutorial.partition("#")[0] in tutorials]


def write_plan(folder: Path) -> list[Path]:
    """Write the plan of the course as Markdown files into a folder; return their paths.

    Raises
    ------
    FileExistsError
        If one of the files exists with another text; then none is written. So a plan whose writing was killed can be
        completed.
    OSError
        If they cannot be written.
    """
    texts = {"README.md": _overview()} | {f"week-{week.number}.md": _describe(week) for week in weeks()}
    paths = {folder / name: text for name, text in texts.items()}
    for path, text in paths.items():
        if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == text.encode()):
            raise FileExistsError(f"{path} exists")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        if not path.exists():
            write_whole(path, text.encode())
    return [*paths]


def _say(name: str, **values: object) -> str:
    """Return a text of the plan in the reader's language."""
    return said(_data()["texts"][name]).format(**values)


def _overview() -> str:
    rows = []
    for week in weeks():
        tutorials = ", ".join(str(tutorial.number) for tutorial in week.tutorials)
        cells = (said(week.title), tutorials, f"{len(week.exercises)}", ", ".join(map(str, week.broken_scripts)))
        rows.append(_say("row", week=week, cells=" | ".join(cells)))
    return _say(
        "overview",
        rows="\n".join(rows),
        weeks=len(weeks()),
        exercises=len(bank()),
        tutorials=sum(len(week.tutorials) for week in weeks()),
        broken_scripts=sum(len(week.broken_scripts) for week in weeks()),
        words=WORDS,
        lines=LINES,
        answer=ANSWER,
        minutes=SCRIPT,
        hours=_sum(week.hours for week in weeks()),
    )


def _describe(week: Week) -> str:
    goals = [goal for tutorial in week.tutorials for goal in tutorial.goals]
    points = weights_of([*week.exercises, *week.optional])
    rows = [
        _row(one, said("optional: " * one.optional + one.title), points[one.name])
        for one in (*week.exercises, *week.optional)
    ]
    return _say(
        "week",
        week=week,
        title=said(week.title),
        goals="\n".join(_say("goal", goal=said(goal)) for goal in goals),
        tutorials="\n".join(_say("tutorial", tutorial=one, title=said(one.title)) for one in week.tutorials),
        lab=said(week.lab.title),
        commands="\n".join(week.lab.commands),
        observe=fill(week.lab.observe),
        broken_scripts="\n".join(
            _say("broken_script", number=number, minutes=SCRIPT) for number in week.broken_scripts
        ),
        questions="\n".join(f"{i}. {said(question)}" for i, question in enumerate(week.questions, start=1)),
        hand_in=_say("hand_in", n=len(week.exercises), points=sum(points.values()), rows="\n".join(rows)),
    )


def _row(exercise: Exercise, title: str, points: float) -> str:
    return f"| `{exercise.name}` | `{exercise.file}` | " + title.replace("|", "\\|") + f" | {points:g} |"
