"""The command `course`, as a teacher uses it."""

import csv
import json

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.learn import find
from minitransformer.apps.learn.course import weeks


@pytest.fixture
def submissions(tmp_path):
    for student, name, text in (
        ("Ada", "softmax-backward", find("softmax-backward").solution),
        ("Grace Hopper", "softmax-backward", "def backward(y, d_y):\n    print('x' * 10**6)\n    return d_y\n"),
        ("Grace Hopper", "softmax-forward", find("softmax-forward").text),
    ):
        path = tmp_path / "submissions" / student / "my-exercises" / find(name).file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "submissions" / "Noam").mkdir()
    return tmp_path / "submissions"


def test_a_plan_is_written_once(tmp_path, capsys):
    folder = tmp_path / "plan"
    assert main(["course", "--out", str(folder)]) == 0
    assert capsys.readouterr().out == f"The plan is in {folder}: README.md for you, 9 weeks for your students.\n"
    (folder / "week-1.md").write_text("changed")
    assert main(["course", "--out", str(folder)]) == 2
    assert "week-1.md exists; choose another folder with --out" in capsys.readouterr().err
    assert (folder / "week-1.md").read_text() == "changed"


def test_a_class_is_graded(submissions, tmp_path, capfd):
    table, words = tmp_path / "week-3.csv", tmp_path / "week-3.json"
    before = sorted(submissions.rglob("*"))
    options = ["--grade", str(submissions), "--week", "3", "--out", str(table), "--json", str(words)]
    assert main(["course", *options]) == 0
    shown, errors = capfd.readouterr()
    assert errors == ""
    assert shown.startswith("week 3: 13 exercises, submissions: 3\n\nAda            1 of 13   missing: find-the-wrong")
    assert "Grace Hopper   0 of 13   wrong: softmax-backward; open: softmax-forward;" in shown
    assert "write-the-checker" not in shown.partition("solved by")[0]
    assert " and 8 more\nGrace" in shown
    assert "Noam           0 of 13   missing: all" in shown
    rows = [*csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines())]
    assert [(row["student"], row["right"], row["softmax-backward"]) for row in rows] == [
        ("Ada", "1", "right"), ("Grace Hopper", "0", "wrong"), ("Noam", "0", "missing"),
    ]  # fmt: skip
    grace = json.loads(words.read_text(encoding="utf-8"))["students"][1]
    assert "d_x is not right yet" in grace["exercises"]["softmax-backward"]["words"]
    assert sorted(submissions.rglob("*")) == before


def test_ctrl_c_leaves_the_table_as_it_was(submissions, tmp_path, monkeypatch, capsys):
    table = tmp_path / "week-3.csv"
    table.write_text("of last week")

    def interrupt(submission, exercises, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("minitransformer.apps.cli.course.grade", interrupt)
    assert main(["course", "--grade", str(submissions), "--week", "3", "--out", str(table)]) == 130
    assert table.read_text() == "of last week"
    assert capsys.readouterr().err == "interrupted\n"


def test_archives_are_named_that_are_not_graded(submissions, capsys):
    (submissions / "Emmy.zip").touch()
    (submissions / ".DS_Store").touch()
    main(["course", "--grade", str(submissions), "--week", "7"])
    assert "\nnot graded, because only folders are: Emmy.zip\n" in capsys.readouterr().out


@cases_from_toml
def test_what_cannot_be_done_is_said_before_any_work(options, said, capsys):
    assert main(["course", *options]) == 2
    assert said in capsys.readouterr().err


def test_verdicts_as_json_for_other_graders(submissions, capfd):
    folder = submissions / "Grace Hopper" / "my-exercises"
    before = sorted(folder.rglob("*"))
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["exercises"]["softmax-backward"]["state"] == "wrong"
    folder = submissions / "Ada" / "my-exercises"
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 0
    assert main(["learn", "check", "--json", "--folder", str(folder)]) == 1
    assert sorted((submissions / "Grace Hopper" / "my-exercises").rglob("*")) == before
    assert main(["learn", "list", "--json", "--folder", str(folder)]) == 2
    assert main(["learn", "check", "--json", "--folder", str(folder / "none")]) == 2


def test_all_weeks_but_the_one_for_the_own_transformer_have_exercises():
    assert [bool(week.exercises) for week in weeks()] == [True] * 7 + [False, True]
