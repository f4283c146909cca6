"""The course: nothing is left out, nothing comes twice, and weeks take about the same time."""

import re
import shlex
from pathlib import Path

import pytest

from minitransformer.apps.cli import build_parser
from minitransformer.apps.learn import bank, find, grading
from minitransformer.apps.learn.clinic import CAUSES, broken_scripts
from minitransformer.apps.learn.course import weeks, write_plan
from minitransformer.apps.learn.language import LANGUAGES, speaking
from minitransformer.apps.learn.model import PARTS
from minitransformer.apps.learn.trainings import TRAININGS, chapter_of

ROOT = Path(__file__).parents[2]


def test_every_exercise_tutorial_and_broken_script_comes_exactly_once():
    exercises = [exercise.name for week in weeks() for exercise in (*week.exercises, *week.optional)]
    assert sorted(exercises) == sorted(exercise.name for exercise in bank())
    assert [one.name for week in weeks() for one in week.optional] == [one.name for one in bank() if one.optional]
    tutorials = [tutorial.name for week in weeks() for tutorial in week.tutorials]
    series = [path.stem for path in (ROOT / "tutorials").glob("[0-9][0-9]-*.md") if path.name < "19"]
    assert tutorials == sorted(series)  # the others, going deeper, are outside the course
    numbers = [number for week in weeks() for number in week.broken_scripts]
    assert sorted(numbers) == [script.number for script in broken_scripts()]


def test_nine_weeks_take_about_the_same_time():
    minutes = [sum(week.times) for week in weeks()]
    assert len(minutes) == 9
    mean = sum(minutes) / 9
    assert all(0.85 * mean < one < 1.15 * mean for one in minutes), minutes


def test_the_commands_of_a_lab_exist_and_their_exercises_are_solved_by_then():
    solved, runs, parser = set(), set(), build_parser()
    for week in weeks():
        solved |= {exercise.name for exercise in week.exercises}
        for line in week.lab.commands:
            program, *words = shlex.split(line)
            assert program == "minitransformer"
            args = parser.parse_args(words)
            if args.command == "train":
                runs.add(str(args.out))
                used = {name for name in PARTS if "--norm" in words or chapter_of(find(name)) < 11}
                assert not hasattr(args, "own") or used <= solved
            if args.command == "learn":
                assert set(TRAININGS[int(args.name)].uses) <= solved
            if hasattr(args, "run"):
                assert str(args.run) in runs


def cells(text):
    """Return the cells of the tables of a text, by rows."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\|.*\|$", text, re.M)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_plan_counts_what_the_weeks_have_and_gives_nothing_away(tmp_path, language):
    with speaking(language):
        overview, *pages = write_plan(tmp_path / "a" / "plan")
    assert [path.name for path in pages] == [f"week-{week.number}.md" for week in weeks()]
    overview, *pages = (path.read_text(encoding="utf-8") for path in (overview, *pages))
    whole = "\n".join([overview, *pages])
    sums = [sum(week.times[n] for week in weeks()) / 60 for n in (0, 1)]
    assert {f"{hours:.1f}" for hours in sums} <= {*re.findall(r"\d+\.\d", overview)}
    for week, row, page in zip(weeks(), cells(overview)[2:], pages, strict=True):
        assert row[0] == f"[{week.number}](week-{week.number}.md)"
        assert row[2] == ", ".join(str(tutorial.number) for tutorial in week.tutorials)
        assert row[3:5] == [f"{len(week.exercises)}", ", ".join(map(str, week.broken_scripts))]
        hours = [float(re.match(r"[\d.]+", cell)[0]) for cell in row[5:]]
        assert hours == pytest.approx([n / 60 for n in week.times], abs=0.051)
        check_page(week, page)
    assert not [name for name in CAUSES if name in whole]
    for exercise in bank():  # the line of the solution, where it is more than a word
        lines = re.search(r"# \[solution\n((?:.*\n)+?) *# solution\]", exercise.source)[1].splitlines()
        assert not [line for line in lines if len(line.strip()) > 20 and line.strip() in whole]
    assert not re.search(r"\{[a-z_.]+\}", whole)


def check_page(week, page):
    """Check that the page of a week has all that belongs to it, in order."""
    asked = [row for row in cells(page) if row[0].startswith("`")]
    assert [row[:2] for row in asked] == [[f"`{e.name}`", f"`{e.file}`"] for e in (*week.exercises, *week.optional)]
    assert all(row[2] for row in asked)
    points = grading.weights_of(week.exercises)  # as the grader gives them
    assert [float(row[3]) for row in asked] == [*points.values(), *[0] * len(week.optional)]
    assert re.search(
        rf"(?<!\d){sum(points.values()):g}(?!\d)", page.partition("| `")[0].rpartition("`my-exercises`")[2]
    )
    assert re.findall(r"minitransformer tutorials (\d+)", page) == [f"{tutorial.number}" for tutorial in week.tutorials]
    assert re.findall(r"minitransformer learn clinic (\d+)", page) == [f"{number}" for number in week.broken_scripts]
    assert "\n".join(week.lab.commands) in page
    assert {f"{n / 60:.1f}" for n in week.times} <= {*re.findall(r"\d+\.\d", page)}


def test_a_plan_is_not_overwritten(tmp_path):
    (tmp_path / "week-8.md").write_text("mine")
    with pytest.raises(FileExistsError):
        write_plan(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["week-8.md"]


def test_a_plan_whose_writing_was_killed_is_completed(tmp_path):
    for path in write_plan(tmp_path)[4:]:
        path.unlink()
    assert len([path for path in write_plan(tmp_path) if path.exists()]) == 1 + len(weeks())


def test_the_guide_shows_the_weeks_as_they_are():
    guide = (ROOT / "docs" / "guides" / "teach-a-course.md").read_text(encoding="utf-8")
    for week in weeks():
        tutorials = ", ".join(str(tutorial.number) for tutorial in week.tutorials)
        assert f"| {week.number} | {tutorials} | " in guide
