"""The command `course`, as a teacher uses it."""

import csv
import json
import os
import re
from configparser import ConfigParser
from datetime import datetime
from pathlib import Path

import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.learn import find

ROOT = Path(__file__).parents[2]


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
    (tmp_path / "submissions" / "노암").mkdir()
    return tmp_path / "submissions"


def test_a_class_is_graded(submissions, tmp_path, capfd):
    table, words = tmp_path / "week-3.csv", tmp_path / "week-3.json"
    before = sorted(submissions.rglob("*"))
    options = ["--grade", str(submissions), "--week", "3", "--out", str(table), "--json", str(words)]
    assert main(["course", *options]) == 0
    shown, errors = capfd.readouterr()
    assert errors == ""
    assert "Grace Hopper   0 of 13   wrong: softmax-backward; open: softmax-forward;" in shown
    assert "노암           0 of 13   missing: all" in shown
    rows = [*csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines())]
    assert [(row["student"], row["right"], row["softmax-backward"]) for row in rows] == [
        ("Ada", "1", "right"), ("Grace Hopper", "0", "wrong"), ("노암", "0", "missing"),
    ]  # fmt: skip
    grace = json.loads(words.read_text(encoding="utf-8"))["students"][1]
    assert "d_x is not right yet" in grace["exercises"]["softmax-backward"]["words"]
    assert sorted(submissions.rglob("*")) == before


RENAMED = {"d_x_hat": "g", "centre": "m", "along": "a", "x_hat": "xh"}


def test_what_a_teacher_sees_of_a_class_of_a_platform(tmp_path, capsys):
    """Numbers of students, points, late files, archives, equal code and feedback."""
    moodle, canvas = "Ada Lovelace_1815_assignsubmission_file_", "hoppergrace_LATE_77_4711_mine"
    own = "import numpy as np\n\n\ndef backward(x_hat, r, gain, d_y):\n    d_x_hat = gain * d_y\n"
    own += "    along = x_hat * np.mean(d_x_hat * x_hat, axis=-1, keepdims=True)\n"
    own += "    centre = np.mean(d_x_hat, axis=-1, keepdims=True)\n    return (d_x_hat - centre - along) * r\n"
    renamed = '"""Mine."""\n' + own
    for old, new in RENAMED.items():
        renamed = re.sub(rf"\b{old}\b", new, renamed)
    wrong = find("smoothed-targets").solution.replace("epsilon / n_tokens", "epsilon / (n_tokens - 1)")
    for student, texts in ((moodle, [own, None, wrong]), (canvas, [renamed, None]), ("Emmy", [None, "solution"])):
        for name, text in zip(
            ["layer-norm-backward", "encoder-layer-backward", "smoothed-targets"], texts, strict=False
        ):
            path = tmp_path / "all" / student / "my-exercises" / find(name).file
            path.parent.mkdir(parents=True, exist_ok=True)
            if text:
                path.write_text(find(name).solution if text == "solution" else text, encoding="utf-8")
                os.utime(path, (1e9, 1e9))
    (tmp_path / "all" / "Noam").mkdir()
    (tmp_path / "all" / "Noam" / "homework.zip").touch()
    (tmp_path / "weights.toml").write_text("layer-norm-backward = 10\n")
    deadline = datetime.fromtimestamp(1e9 - 3600).isoformat()
    table, feedback = tmp_path / "all.csv", tmp_path / "feedback"
    options = ["--out", str(table), "--feedback", str(feedback), "--deadline", deadline, "--partial"]
    options += ["--weights", str(tmp_path / "weights.toml")]
    assert main(["course", "--grade", str(tmp_path / "all"), *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Noam +0 of \d+ not unpacked: homework.zip hoppergrace", shown)
    assert shown.count("1 h late") == 3
    assert f"the same code after renaming: {moodle}, {canvas}: layer-norm-backward" in shown
    assert "Emmy, the printed solution: encoder-layer-backward" in shown
    rows = {row["student"]: row for row in csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines())}
    assert [rows[name]["id"] for name in (moodle, canvas, "Emmy")] == ["1815", "77", ""]
    assert float(rows[canvas]["points"]) == 10
    assert 10 < float(rows[moodle]["points"]) < 11  # right where epsilon is 0
    assert float(rows["Emmy"]["points"]) > 5
    text = (feedback / moodle / "feedback.txt").read_text("utf-8")
    assert "layer-norm-backward: right.\n" in text
    assert "smoothed-targets: wrong. q, for" in text
    assert "not unpacked: homework.zip" in (feedback / "Noam" / "feedback.txt").read_text("utf-8")
    assert main(["course", "--grade", str(tmp_path / "all"), *options, "--lang", "ko"]) == 0
    text = (feedback / moodle / "feedback.txt").read_text("utf-8")
    assert "\n\nlayer-norm-backward: 맞았습니다.\n\n" in text
    assert re.search("^smoothed-targets: 틀렸습니다. .+ 아직 맞지 않습니다.$", text, re.MULTILINE)
    assert "homework.zip: 압축을 풀지 않았습니다." in (feedback / "Noam" / "feedback.txt").read_text("utf-8")
    (tmp_path / "weights.toml").write_text("layer-norm-sideways = 10\n")
    assert main(["course", "--grade", str(tmp_path / "all"), *options]) == 2
    assert "there is no exercise 'layer-norm-sideways'" in capsys.readouterr().err


def test_ctrl_c_leaves_the_table_as_it_was(submissions, tmp_path, monkeypatch, capsys):
    table = tmp_path / "week-3.csv"
    table.write_text("of last week")

    def interrupt(submission, exercises, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("minitransformer.apps.learn.grading.grade", interrupt)
    assert main(["course", "--grade", str(submissions), "--week", "3", "--out", str(table)]) == 130
    assert table.read_text() == "of last week"
    assert capsys.readouterr().err == "interrupted\n"


def test_verdicts_as_json_for_other_graders(submissions, capfd):
    folder = submissions / "Grace Hopper" / "my-exercises"
    before = sorted(folder.rglob("*"))
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["student"] == "Grace Hopper"
    assert found["exercises"]["softmax-backward"]["state"] == "wrong"
    folder = submissions / "Ada" / "my-exercises"
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 0
    assert main(["learn", "check", "--json", "--folder", str(folder)]) == 1
    assert sorted((submissions / "Grace Hopper" / "my-exercises").rglob("*")) == before
    assert main(["learn", "list", "--json", "--folder", str(folder)]) == 2
    assert main(["learn", "check", "--json", "--folder", str(folder / "none")]) == 2


def test_the_files_for_other_services_are_what_the_package_asks_for(tmp_path, monkeypatch, capfd):
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    [line] = [line for line in (ROOT / ".binder" / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    assert re.fullmatch(r"-e \.\[(\w+)\]", line)[1] in settings["options.extras_require"]
    assert settings["options"]["python_requires"] == ">=3.11"
    assert re.fullmatch(r"python-3\.1[1-9]\n", (ROOT / ".binder" / "runtime.txt").read_text())
    # The workflow's own commands, on a right and on an open exercise.
    guide = (ROOT / "docs" / "guides" / "teach-a-course.md").read_text(encoding="utf-8")
    workflow = guide[guide.index("name: grade") :]
    check, grade = (line.split() for line in re.findall(r"minitransformer ((?:learn|course) .*--.*)", workflow)[:2])
    for text, status in ((find("softmax-backward").solution, 0), (find("softmax-backward").text, 1)):
        path = tmp_path / "my-exercises" / find("softmax-backward").file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        assert main(check) == status
    (tmp_path / "class").mkdir()
    (tmp_path / "my-exercises").rename(tmp_path / "class" / "ada")
    assert main(grade[: grade.index(">>")]) == 0
    assert "ada   0 of 13   open: softmax-backward" in capfd.readouterr().out
