"""A course of nine weeks, planned from the tutorials, the exercises and the clinic.

``course.toml`` names the tutorials and patients of each week, a lab and some questions. An exercise belongs to the week
of the tutorial that teaches it. So nothing is left out, and nothing comes twice.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minitransformer.durable import write_whole
from minitransformer.learn.bank import Exercise, bank

__all__ = ["Lab", "Tutorial", "Week", "weeks", "write_plan"]

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
def weeks() -> tuple[Week, ...]:
    """Return the weeks of the course."""
    data: dict[str, Any] = tomllib.loads(DATA.read_text(encoding="utf-8"))
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
        If one of the files exists; then none is written.
    OSError
        If they cannot be written.
    """
    texts = {"README.md": _overview()} | {f"week-{week.number}.md": _describe(week) for week in weeks()}
    paths = {folder / name: text for name, text in texts.items()}
    if existing := next((path for path in paths if path.exists()), None):
        raise FileExistsError(f"{existing} exists")
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
    return OVERVIEW.format(
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
    return WEEK.format(
        week=week,
        time=_hours(week.minutes),
        goals=";\n".join(f"- {goal}" for goal in goals),
        tutorials="\n".join(tutorials),
        commands="\n".join(week.lab.commands),
        observe=textwrap.fill(week.lab.observe, WIDTH),
        patients="\n".join(patients),
        questions="\n".join(f"{i}. {question}" for i, question in enumerate(week.questions, start=1)),
        hand_in=EXERCISES.format(n=len(week.exercises), rows=_rows(week)) if week.exercises else NO_EXERCISES,
    )


def _rows(week: Week) -> str:
    titles = [one.title.replace("|", "\\|") for one in week.exercises]
    return "\n".join(
        f"| `{one.name}` | `{one.file}` | {title} |" for one, title in zip(week.exercises, titles, strict=True)
    )


OVERVIEW = """# A course in {weeks} weeks

From the derivative of a product to a Transformer that the students' own code trains: {tutorials} tutorials,
{exercises} exercises, {patients} patients of the clinic and {weeks} labs. Students need Python, NumPy and the
derivative of a function of one variable. One student needs about {total} in all.

| week | topic | tutorials | exercises | patients | time |
|---|---|---|---|---|---|
{rows}

The time of a tutorial is the one that it states; an exercise counts {exercise} minutes, a patient {patient}. The files
`week-N.md` are written for students. They contain no solutions, and no diagnosis of a patient.

## Before the first week

Each student installs the package from a clone of the repository, which contains the tutorials:

```sh
python -m pip install -e ".[tutorials]"
minitransformer learn list
```

The second command makes the folder `my-exercises/`. From then on no network is needed. All of you need the same
version: `minitransformer --version`.

## Each week

1. Before class, students read the tutorials and solve exercises. `minitransformer learn` checks each file when it is
   saved.
2. In class: the lab, the patient of the clinic, the questions.
3. After class, students hand in the folder `my-exercises`. Give each student a folder:

```text
submissions/
  Ada/my-exercises/
  Grace/my-exercises/
```

```sh
minitransformer course --grade submissions --week 3 --out week-3.csv
```

prints a table and writes it as CSV: a row for each student and a column for each exercise. The cells are `right`,
`wrong`, `open` (nothing is written at the TODO) or `missing` (there is no file). Each right exercise is one point. Labs
and patients are not graded by the command: discuss them in class.

## What the points mean

The solutions are part of the package (`minitransformer learn solution NAME`). So points show who has worked, not who
has understood: let students explain one of their functions in class.

Submissions run on your machine with your rights. Limits of time and memory stop accidents such as an endless loop. They
are no protection against a program that means to do harm: for strangers' code use a container or another account.
"""
WEEK = """# Week {week.number}: {week.title}

About {time} for a student.

## Goals

After this week you can

{goals}.

## Read

{tutorials}

## Lab: {week.lab.title}

{week.lab.minutes} minutes.

```sh
{commands}
```

{observe}

## Clinic

{patients}

Bring the cause, the measurement that shows it, and the corrected script.

## Questions for the discussion

{questions}

## Hand in

{hand_in}"""
EXERCISES = """Hand in your folder `my-exercises` with these {n} exercises solved. Each right one is a point.
`minitransformer learn check NAME` checks one as the grader does.

| exercise | file | what it asks for |
|---|---|---|
{rows}
"""
NO_EXERCISES = """No exercises are due. Hand in the picture of the two loss curves of the lab, with a paragraph on it.
"""
