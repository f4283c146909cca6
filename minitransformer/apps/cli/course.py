"""Give a course: a plan of nine weeks, and grades for students.

`course --out FOLDER` writes the plan: tutorials, exercises, a lab and a broken script of the clinic for each week.
`course --grade SUBMISSIONS --week 3` checks the exercises of that week in a folder with one folder for each student.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from minitransformer.apps.cli.errors import UsageError, one_line
from minitransformer.apps.cli.languages import add_language, refusing_in
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.output_paths import check_writable, is_stream, write_output
from minitransformer.apps.learn import Exercise, bank, find, grading
from minitransformer.apps.learn.course import weeks, write_plan
from minitransformer.apps.learn.language import LANGUAGES, said
from minitransformer.console import fill, gather, spread
from minitransformer.durable import check_makeable
from minitransformer.files import read_toml, reason

add_arguments = add_language
CHOICES = {"lang": LANGUAGES}
WORDS = {"seconds": grading.SECONDS}
SHOWN = 4
"""How many exercises of a student are named in one state."""


def run(args: argparse.Namespace) -> int:
    """Write the plan, or grade, in the reader's language; return the exit status."""
    with refusing_in(getattr(args, "lang", "")):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    if hasattr(args, "grade"):
        return _grade(args)
    for name in ("week", "json", "seconds", "partial", "weights", "deadline", "feedback"):
        if getattr(args, name, False):
            raise UsageError(f"--{name} has no effect without --grade; add --grade SUBMISSIONS")
    folder = getattr(args, "out", Path("course"))
    try:
        written = write_plan(folder)
    except FileExistsError as error:
        raise UsageError(f"{error}; choose another folder with --out, or remove it first") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {reason(error)}; choose another folder with --out") from error
    print(said(f"The plan is in {folder}: {written[0].name} for you, {len(written) - 1} weeks for your students."))
    return 0


def _grade(args: argparse.Namespace) -> int:
    seconds = getattr(args, "seconds", grading.SECONDS)
    if not 0 < seconds < 3600:
        raise UsageError(f"--seconds must be above 0 and below 3600, found {seconds:g}")
    check_writable(args, "out", "json", endings=())
    if hasattr(args, "feedback"):
        try:
            check_makeable(args.feedback)
        except OSError as error:
            words = f"--feedback: {args.feedback} cannot be written: {reason(error)}; choose another path"
            raise UsageError(words) from error
    exercises = _exercises_of(args.week) if hasattr(args, "week") else bank()
    weights = grading.weights_of(exercises) | _read_weights(args, exercises)
    deadline = getattr(args, "deadline", None)
    submissions = grading.read_submissions(args.grade, exercises)
    what = f"week {args.week}" if hasattr(args, "week") else "all weeks"
    print(said(f"{what}: {len(exercises)} exercises, submissions: {len(submissions)}") + "\n", flush=True)
    if others := sorted(one_line(file.name) for file in args.grade.glob("[!.]*") if not file.is_dir()):
        print(fill(said(f"not graded, because only folders are: {', '.join(others)}")) + "\n")
    width = min(30, max(len(spread(one_line(submission.student))) for submission in submissions))
    results: list[grading.Result] = []
    makers = {"out": lambda found: grading.write_csv(found, weights, args.partial, deadline), "json": _json}
    tables = {name: table for name, table in makers.items() if hasattr(args, name)}
    for submission in submissions:
        results.append(grading.grade(submission, exercises, seconds=seconds))
        print(_line(results[-1], width, deadline), flush=True)
        for name, table in tables.items():
            if not is_stream(path := getattr(args, name)):  # an interruption leaves all students so far
                write_output(path, table(results))
        if hasattr(args, "feedback"):
            grading.write_feedback(results[-1], args.feedback)
    for name, table in tables.items():
        if is_stream(path := getattr(args, name)):
            write_output(path, table(results))
    print("\n" + _summary(results))
    if equal := grading.equal_answers(submissions, exercises):
        print("\n" + said("the same code after renaming:"))
        for students, names in sorted(equal.items(), key=lambda group: -len(group[1])):
            print(fill(f"  {', '.join(map(one_line, students))}: {_shorten(names)}", rest="    "))
    if long := grading.too_long_to_compare(submissions):
        print("\n" + said(f"longer than {grading.LONGEST_COMPARED:,} bytes, so not compared with other students:"))
        for student, names in long.items():
            print(fill(f"  {one_line(student)}: {_shorten(names)}", rest="    "))
    if hasattr(args, "feedback"):
        print("\n" + said(f"The feedback for each student is in {args.feedback}."))
    if hasattr(args, "out"):
        print("\n" + said(f"The table is in {args.out}."))
    if hasattr(args, "json"):
        print("\n" * (not hasattr(args, "out")) + said(f"What was wrong is in {args.json}."))
    return 0


def _exercises_of(number: int) -> Sequence[Exercise]:
    """Return the exercises of a week."""
    numbered = {week.number: week.exercises for week in weeks() if week.exercises}
    if number not in numbered:
        raise UsageError(f"--week: found {number}, expected a week with exercises: {', '.join(map(str, numbered))}")
    return numbered[number]


def _read_weights(args: argparse.Namespace, exercises: Sequence[Exercise]) -> dict[str, float]:
    """Return the weights of the teacher's own file."""
    if not hasattr(args, "weights"):
        return {}
    with refusing(args, before="--weights: "):
        given = read_toml(args.weights)
    with refusing(args, (LookupError, ValueError), before=f"--weights: {args.weights}: "):
        weights = {find(name).name: weight for name, weight in given.items()}
        for name, weight in weights.items():
            if not isinstance(weight, int | float) or not 0 <= weight < 1000:
                raise ValueError(f"{name} = {weight!r}, expected a number from 0 to 1000")
    return {one.name: float(weights[one.name]) for one in exercises if one.name in weights}


def _line(result: grading.Result, width: int, deadline: datetime | None) -> str:
    """Return the name of a student, the points, and the exercises that are not right."""
    student = gather(f"{spread(one_line(result.student)):<{width}}")
    right = said("{right:>3} of {all}").format(right=len(result.names("right")), all=len(result.verdicts))
    rest = [
        said(f"{state}: {'all' if len(names) == len(result.verdicts) else _shorten(names)}")
        for state in grading.STATES[1:]
        if (names := result.names(state))
    ]
    if result.archives:
        rest = [said(f"not unpacked: {', '.join(map(one_line, result.archives))}")]
    if hours := grading.hours_late(result, deadline):
        rest.append(said("{hours:g} h late").format(hours=hours))
    return fill(f"{student} {right}   {'; '.join(rest)}".rstrip(), rest=" " * (width + 1))


def _shorten(names: Sequence[str]) -> str:
    """Return the first names; the others are in the table."""
    shown = ", ".join(names[:SHOWN])
    return said("{names} and {n} more").format(names=shown, n=len(names) - SHOWN) if len(names) > SHOWN else shown


def _summary(results: Sequence[grading.Result]) -> str:
    """Return the exercises that the fewest students have solved."""
    solved = Counter({name: 0 for name in results[0].verdicts})
    for result in results:
        solved.update(result.names("right"))
    hardest = sorted(solved.items(), key=lambda item: item[1])[:5]
    of = said("{right:>3} of {all}")
    lines = [f"  {name:<28} {of.format(right=number, all=len(results))}" for name, number in hardest]
    return "\n".join([said("solved by the fewest:"), *lines])


def _json(results: Sequence[grading.Result]) -> bytes:
    from importlib.metadata import version  # slow

    students = [result.describe() for result in results]
    return json.dumps({"minitransformer": version("minitransformer"), "students": students}, indent=1).encode() + b"\n"
