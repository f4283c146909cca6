"""The command `course`, as a teacher uses it."""

import json
import re
from configparser import ConfigParser
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
    before = sorted(submissions.rglob("*"))
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["student"] == "Grace Hopper"
    assert found["exercises"]["softmax-backward"]["state"] == "wrong"
    folder = submissions / "Ada" / "my-exercises"
    assert main(["learn", "check", "softmax-backward", "--json", "--folder", str(folder)]) == 0
    assert main(["learn", "check", "--json", "--folder", str(folder)]) == 1
    assert main(["course", "--grade", str(submissions), "--week", "3"]) == 0
    assert sorted(submissions.rglob("*")) == before
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
