"""A course of nine weeks, planned from the tutorials, the exercises and the clinic.

``course.toml`` names the tutorials and patients of each week, a lab and some questions, and holds the texts of the
plan. An exercise belongs to the week of the tutorial that teaches it. So nothing is left out, and nothing comes twice.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minitransformer.apps.learn.bank import Exercise, bank
from minitransformer.durable import write_whole

DATA = Path(__file__).with_suffix(".toml")
EXERCISE_MINUTES, PATIENT_MINUTES = 10, 15
"""The usual time for an exercise, and for a patient of the clinic."""
WIDTH = 100


@dataclass(frozen=True)
class Tutorial:
    """A tutorial, as its own head describes it."""

    name: str
    title: str
    minutes: int
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
    patients: Sequence[int]
    """The numbers of the patients of the clinic."""
    lab: Lab
    questions: Sequence[str]

    @property
    def minutes(self) -> int:
        """How long a student needs, in minutes."""
        reading = sum(tutorial.minutes for tutorial in self.tutorials)
        return (
            reading + EXERCISE_MINUTES * len(self.exercises) + PATIENT_MINUTES * len(self.patients) + self.lab.minutes
        )


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
            [exercise for exercise in bank() if exercise.tutorial.partition("#")[0] in week["tutorials"]],
            week["patients"],
            Lab(**week["lab"]),
            week["questions"],
        )
        for number, week in enumerate(data["week"], start=1)
    )


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
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
            raise FileExistsError(f"{path} exists")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        write_whole(path, text.encode())
    return [*paths]


def _hours(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60:02} min"


def _overview() -> str:
    rows = [
        f"| [{week.number}](week-{week.number}.md) | {week.title} "
        f"| {', '.join(str(tutorial.number) for tutorial in week.tutorials)} | {len(week.exercises)} "
        f"| {', '.join(map(str, week.patients))} | {_hours(week.minutes)} |"
        for week in weeks()
    ]
    return _data()["texts"]["overview"].format(
        rows="\n".join(rows),
        weeks=len(weeks()),
        exercises=len(bank()),
        tutorials=sum(len(week.tutorials) for week in weeks()),
        patients=sum(len(week.patients) for week in weeks()),
        exercise=EXERCISE_MINUTES,
        patient=PATIENT_MINUTES,
        total=_hours(sum(week.minutes for week in weeks())),
    )


def _describe(week: Week) -> str:
    goals = [goal for tutorial in week.tutorials for goal in tutorial.goals]
    tutorials = [
        f"- Tutorial {one.number}, {one.title} ({one.minutes} minutes): `minitransformer tutorials {one.number}`"
        for one in week.tutorials
    ]
    patients = [
        f"- Patient {number} ({PATIENT_MINUTES} minutes): `minitransformer learn clinic {number}`"
        for number in week.patients
    ]
    texts = _data()["texts"]
    hand_in = texts["exercises" if week.exercises else "no_exercises"]
    return texts["week"].format(
        week=week,
        time=_hours(week.minutes),
        goals=";\n".join(f"- {goal}" for goal in goals),
        tutorials="\n".join(tutorials),
        commands="\n".join(week.lab.commands),
        observe=textwrap.fill(week.lab.observe, WIDTH),
        patients="\n".join(patients),
        questions="\n".join(f"{i}. {question}" for i, question in enumerate(week.questions, start=1)),
        hand_in=hand_in.format(n=len(week.exercises), rows=_rows(week)),
    )


def _rows(week: Week) -> str:
    titles = [one.title.replace("|", "\\|") for one in week.exercises]
    return "\n".join(
        f"| `{one.name}` | `{one.file}` | {title} |" for one, title in zip(week.exercises, titles, strict=True)
    )
