"""The command `course`, as a teacher uses it."""

import csv
import json
import os
import re
from pathlib import Path

import pytest
from test_files import BAD_TOML

from minitransformer.apps.cli import main
from minitransformer.apps.learn import find
from minitransformer.apps.learn.course import weeks
from minitransformer.apps.learn.grading import weights_of

ROOT = Path(__file__).parents[2]


HOUR = 3600
SAVED = {"Ada": 10, "Ben": 13, "Cy": 20}
"""The hours at which students saved their last file; the deadline is at 12."""
WRONG = "def merge(heads):\n    return heads\n"
OPEN = "def step(*_):\n    return ...\n"


def hand_in(folder, student, saved=0, **texts):
    """Write a student's answers, by the names of exercises with underscores; None is the printed solution."""
    for name, text in texts.items():
        exercise = find(name.replace("_", "-"))
        path = folder / student / exercise.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(exercise.solution if text is None else text, encoding="utf-8")
        os.utime(path, (0, saved * HOUR))


@pytest.fixture
def week_5(tmp_path, monkeypatch):
    """A class of four, of which one has handed in nothing."""
    monkeypatch.chdir(tmp_path)
    names = [exercise.name for week in weeks() if week.number == 5 for exercise in week.exercises]
    everything = {name.replace("-", "_"): None for name in names}
    hand_in(Path("class"), "Ada", SAVED["Ada"], **everything)
    hand_in(Path("class"), "Ben", SAVED["Ben"], adam_step=OPEN, merge_heads=WRONG, split_heads=None)
    hand_in(Path("class"), "Cy", SAVED["Cy"], sinusoidal_positions=None, merge_heads="def merge(\n")
    Path("class/Dee").mkdir()
    Path("class/Dee/homework.zip").touch()
    Path("class/notes.txt").write_text("for me")
    Path("class/.hidden").touch()
    return names


def grade(told, *options):
    status, out, err = told("course", "--grade", "class", *options)
    assert (status, err) == (0, "")
    return out


def test_the_table_of_a_class(told, week_5):
    Path("weights.toml").write_text("xavier = 10\nsplit-heads = 0.5\nproduct-rule = 100\n")
    deadline = ["--deadline", "1970-01-01T12:00:00+00:00"]
    grade(told, "--week", "5", "--out", "table.csv", "--weights", "weights.toml", *deadline)
    with open("table.csv", newline="", encoding="utf-8-sig") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert [*rows] == ["Ada", "Ben", "Cy", "Dee"]
    states = {student: {name: row[name] for name in week_5} for student, row in rows.items()}
    missing = dict.fromkeys(week_5, "missing")
    assert states["Ada"] == dict.fromkeys(week_5, "right")
    assert states["Ben"] == missing | {"adam-step": "open", "merge-heads": "wrong", "split-heads": "right"}
    assert states["Cy"] == missing | {"sinusoidal-positions": "right", "merge-heads": "wrong"}
    assert states["Dee"] == missing
    # the weight of an exercise is the teacher's, or follows from its length; those of other weeks do not count
    weights = weights_of([find(name) for name in week_5]) | {"xavier": 10.0, "split-heads": 0.5}
    for student, row in rows.items():
        right = [name for name in week_5 if states[student][name] == "right"]
        assert (row["right"], row["of"]) == (f"{len(right)}", f"{len(week_5)}")
        assert float(row["points"]) == sum(weights[name] for name in right)
        assert float(row["of_points"]) == sum(weights.values())
        assert float(row["hours_late"]) == max(0, SAVED.get(student, 0) - 12)


def test_what_is_printed_of_a_class(told, week_5):
    out = grade(told, "--week", "5", "--deadline", "1970-01-01T12:00:00+00:00")
    text = " ".join(out.split())
    assert f"{len(week_5)} exercises, submissions: 4" in text
    assert "notes.txt" in text  # is no folder
    assert ".hidden" not in text
    lines = {line.split()[0]: line for line in re.split(r"\n(?=\S)", out)}
    for student, right in (("Ada", 6), ("Ben", 1), ("Cy", 1), ("Dee", 0)):
        assert f" {right} of {len(week_5)} " in f"{lines[student]} "
    of_ben = " ".join(lines["Ben"].split())
    assert re.search("wrong: merge-heads; open: adam-step; missing: .*; 1 h late", of_ben)
    assert "late" not in lines["Ada"]
    assert "more" not in lines["Cy"]  # exactly four are missing
    assert "homework.zip" in lines["Dee"]
    assert "missing" not in lines["Dee"]  # all of it may be in the archive
    # the five that the fewest have solved, ties in the order of the course
    solved = dict(re.findall(r"^  ([a-z-]+) +(\d) of 4$", out, re.M))
    right = {name: 1 for name in week_5} | {"split-heads": 2, "sinusoidal-positions": 2}
    assert [*solved] == sorted(week_5, key=lambda name: right[name])[:5]
    assert solved == {name: f"{right[name]}" for name in solved}
    equal = out.partition("same code")[2]
    assert re.search(r"Ada, Cy, .*sinusoidal-positions", equal)
    assert "Ben" not in equal  # only short answers


def test_answers_that_are_too_long_to_compare_are_named(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = find("sinusoidal-positions").solution
    hand_in(Path("class"), "Ada", sinusoidal_positions=answer)
    hand_in(Path("class"), "Ben", sinusoidal_positions=f"{answer}# {'x' * 66_000}\n", merge_heads=None)
    out = grade(told, "--week", "5")
    assert "Ben" not in out.partition("same code")[2].partition("not compared")[0]
    assert re.fullmatch(r".*\n  Ben: sinusoidal-positions\n", out.partition("not compared")[2])
    hand_in(Path("class"), "Ben", sinusoidal_positions=answer)
    assert "not compared" not in grade(told, "--week", "5")


def test_verdicts_and_feedback_say_what_was_wrong(told, week_5):
    out = grade(told, "--week", "5", "--json", "a.json", "--feedback", "deep/er")
    assert "a.json" in out
    assert "deep/er" in out
    found = json.loads(Path("a.json").read_text())["students"]
    assert [one["student"] for one in found] == ["Ada", "Ben", "Cy", "Dee"]
    for one in found:
        assert one["right"] == sum(verdict["state"] == "right" for verdict in one["exercises"].values())
        parts = Path("deep/er", one["student"], "feedback.txt").read_text("utf-8")
        for name, verdict in one["exercises"].items():
            assert f"{name}: {verdict['state']}." in parts
            assert bool(verdict["words"]) == (verdict["state"] in ("wrong", "open"))
            assert verdict["words"] in parts
    assert "homework.zip" in parts


def test_a_wrong_answer_may_get_a_share_of_its_points(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half = "import numpy as np\n\n\ndef wanted(targets, n, e):\n    return (1 - e) * np.eye(n)[targets] + e / (n - 1)\n"
    hand_in(Path("class"), "Ada", smoothed_targets=half)
    points = []
    for options in ([], ["--partial"]):
        grade(told, *options, "--out", "table.csv")
        with open("table.csv", newline="", encoding="utf-8-sig") as file:
            (row,) = csv.DictReader(file)
        points.append(float(row["points"]))
        assert row["smoothed-targets"] == "wrong"
    assert points[0] == 0 < points[1] < weights_of([find("smoothed-targets")])["smoothed-targets"]


@pytest.mark.parametrize("weight", ["-1", "1000", "'many'", "nan", ""])
def test_an_impossible_weight_is_refused(refused, week_5, weight):
    Path("weights.toml").write_text(f"xavier = {weight}\n")
    message = refused("course", "--grade", "class", "--weights", "weights.toml")
    assert "--weights: weights.toml" in message
    assert not weight or "xavier" in message


@pytest.mark.parametrize("name", BAD_TOML)
def test_weights_that_are_no_toml_are_refused(refused, week_5, name):
    Path("weights.toml").write_bytes(BAD_TOML[name][0])
    assert "--weights: weights.toml" in refused("course", "--grade", "class", "--weights", "weights.toml")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_weights_may_begin_with_a_byte_order_mark(told, week_5, encoding):
    Path("weights.toml").write_text("xavier = 9.25\n", encoding=encoding)
    grade(told, "--week", "5", "--out", "table.csv", "--weights", "weights.toml")
    total = sum((weights_of([find(name) for name in week_5]) | {"xavier": 9.25}).values())
    assert f",{total}," in Path("table.csv").read_text(encoding="utf-8-sig")


def test_a_deadline_that_no_clock_shows_is_refused(refused, week_5):
    assert "--deadline" in refused("course", "--grade", "class", "--deadline", "0001-01-01")


@pytest.mark.parametrize("option", ["week 3", "json x", "partial", "seconds 3", "weights w", "feedback f"])
def test_options_of_grading_need_submissions(refused, option):
    name, *value = option.split()
    message = refused("course", f"--{name}", *value)
    assert f"--{name} " in message
    assert "--grade" in message


def test_a_plan_is_written_once(told, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, folder in (([], "course"), (["--out", "deep/er"], "deep/er")):
        status, out, err = told("course", *options)
        assert (status, err, folder in out) == (0, "", True)
        assert len([*Path(folder).glob("*.md")]) == 1 + len(weeks())
    Path("deep/er/week-1.md").write_text("changed")
    assert "deep/er/week-1.md" in refused("course", "--out", "deep/er")
    assert Path("deep/er/week-1.md").read_text() == "changed"


def test_ctrl_c_leaves_the_table_as_it_was(told, week_5, monkeypatch):
    Path("table.csv").write_text("of last week")

    def interrupt(submission, exercises, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("minitransformer.apps.learn.grading.grade", interrupt)
    status, _, err = told("course", "--grade", "class", "--week", "5", "--out", "table.csv")
    assert (status, err) == (130, "interrupted\n")
    assert Path("table.csv").read_text() == "of last week"


def test_verdicts_as_json_for_other_graders(week_5, capfd):
    before = sorted(Path("class").rglob("*"))
    for student, exercise, state, status in (
        ("Ben", ["merge-heads"], "wrong", 1),
        ("Ada", ["merge-heads"], "right", 0),
        ("Ada", [], "right", 1),  # others are missing
    ):
        assert main(["learn", "check", *exercise, "--json", "--folder", f"class/{student}"]) == status
        found = json.loads(capfd.readouterr().out)
        assert (found["student"], found["exercises"]["merge-heads"]["state"]) == (student, state)
    assert main(["course", "--grade", "class", "--week", "5"]) == 0
    assert sorted(Path("class").rglob("*")) == before


def test_the_workflow_of_the_guide_checks_and_grades(week_5, capfd):
    guide = (ROOT / "docs" / "guides" / "teach-a-course.md").read_text(encoding="utf-8")
    workflow = guide[guide.index("name: grade") :]
    check, grade = (line.split() for line in re.findall(r"minitransformer ((?:learn|course) .*--.*)", workflow)[:2])
    exercise = find("softmax-backward")
    for text, status in ((exercise.solution, 0), (exercise.text, 1)):
        path = Path("my-exercises", exercise.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        assert main(check) == status
    Path("my-exercises").rename("class/Ada/week-3")
    assert main(grade[: grade.index(">>")]) == 0
    assert re.search(r"^Ada .* open: softmax-backward", capfd.readouterr().out, re.MULTILINE)
