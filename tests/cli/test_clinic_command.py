"""`learn clinic`, as a learner uses it. A report that is made up stands in for the training of each script."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from minitransformer.apps.learn import clinic

REPORT = json.loads(Path(__file__).with_name("clinic_report.json").read_text(encoding="utf-8"))
"""What the examination of a healthy training of four steps has measured."""
pytestmark = pytest.mark.numpy_only("the scripts are trained elsewhere")
CHANGED = "# report "
"""The first words of a corrected script, before what its examination shall find."""


@pytest.fixture
def visit(told, tmp_path, monkeypatch):
    """Return a function that runs the command in an empty folder; it notes what is examined."""
    monkeypatch.chdir(tmp_path)

    def examine(command, input, **_):
        report = REPORT | json.loads(input.partition(CHANGED)[2] or "{}")
        visit.examined.append(input)
        return CompletedProcess(command, report.get("status", 0), f"shown\n{json.dumps(report)}", "a\nlast\n")

    def visit(*words):
        status, out, err = told("learn", "clinic", *words)
        assert (status in (0, 1), err) == (True, "")
        return status, " ".join(out.split())

    monkeypatch.setattr("minitransformer.apps.learn.clinic.visit.subprocess.run", examine)
    visit.examined = []
    return visit


def progress():
    kept = clinic.Progress.read(Path("my-exercises"))
    return [*kept.diagnosed], [*kept.fixed]


def correct(number, **report):
    Path("my-exercises", clinic.find_script(number).file).write_text(f"{CHANGED}{json.dumps(report)}", encoding="utf-8")


def test_the_list_has_every_script_with_its_state_and_every_cause(visit, told):
    assert visit()[0] == 0
    script = clinic.find_script("3")
    visit("3", "--diagnosis", script.cause)
    visit("10")
    correct("10", score=0.97, on_padding=0.0, blank_score=0.5)
    visit("10")
    assert progress() == ([3], [10])
    lines = told("learn", "clinic")[1].splitlines()
    states = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("  script")}
    assert [*states] == [script.name for script in clinic.broken_scripts()]
    assert {name: words for name, words in states.items() if words} == {
        clinic.find_script("3").name: ["diagnosed"],
        clinic.find_script("10").name: ["fixed"],
    }
    for name, cause in clinic.CAUSES.items():
        assert [line.split(maxsplit=1) for line in lines if line.startswith(f"  {name} ")] == [[name, cause.text]]


def test_a_first_visit_says_what_can_be_asked_and_trains_once(visit):
    status, out = visit("3")
    assert (status, len(visit.examined)) == (1, 1)
    assert "minitransformer learn clinic 3 --ask WHAT" in out
    assert "minitransformer learn clinic 3 --diagnosis CAUSE" in out
    assert all(what in out for what in clinic.ASK)
    assert visit("3")[0] == visit("script-3")[0] == 1
    assert len(visit.examined) == 1  # the report is kept
    assert visit.examined == [clinic.find_script("3").text]
    status, out = visit("1", "--folder", "deep/er")
    assert "learn clinic 1 --diagnosis CAUSE --folder deep/er" in out
    assert Path("deep/er", clinic.find_script("1").file).is_file()


@pytest.mark.parametrize("what", clinic.ASK)
def test_each_question_is_answered_by_its_measurement(visit, drawing, what):
    with drawing():
        status, out = visit("3", "--ask", what)
    assert status == 0
    assert " ".join(clinic.ASK[what](REPORT).split()) in out
    picture = Path("my-exercises", clinic.find_script("3").file).with_suffix(".png")
    assert picture.exists() == (what == "loss")
    assert (str(picture) in out) == (what == "loss")


@pytest.mark.parametrize("script", clinic.broken_scripts(), ids=lambda script: script.name)
def test_the_right_cause_is_noted(visit, script):
    status, out = visit(f"{script.number}", "--diagnosis", script.cause)
    assert (status, progress()) == (0, ([script.number], []))
    assert f"--ask {clinic.CAUSES[script.cause].ask}" in out


def test_another_cause_is_not_noted(visit):
    script = clinic.find_script("3")
    for name in clinic.CAUSES.keys() - {script.cause}:
        status, out = visit("3", "--diagnosis", name)
        assert (status, progress()) == (1, ([], []))
        assert f"{script.name}, {name}: " in out
        assert f"--ask {clinic.CAUSES[name].ask}" in out


def test_a_diagnosis_is_about_the_original_script(visit):
    visit("2")
    correct("2", score=0.1)
    assert visit("2", "--diagnosis", clinic.find_script("2").cause)[0] == 0
    assert {*visit.examined} == {clinic.find_script("2").text}


@pytest.mark.parametrize(
    ("number", "report", "healthy"),
    [
        ("2", {"score": 0.9}, True),
        ("2", {"score": 0.96, "blank_score": 0.5}, True),
        ("2", {"score": 0.96, "blank_score": 0.6}, False),
        ("2", {"score": 0.96, "blank_score": 0.1, "targets": 9_999_999}, False),
        ("10", {"score": 0.97, "on_padding": 0.1}, False),
        ("10", {"score": 0.97, "on_padding": 0.0, "blank_score": 0.5}, True),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_corrected_script_is_healthy_or_not(visit, number, report, healthy, named):
    cause = clinic.find_script(number).cause
    visit(number, *(["--diagnosis", cause] if named else []))
    correct(number, **report)
    status, out = visit(number)
    assert status == (0 if healthy else 1)
    assert progress() == ([int(number)] * named, [int(number)] * healthy)
    assert ("--diagnosis CAUSE" in out) != named  # asks for the cause as long as it was not named
    assert (cause in out) == (named and not healthy)  # and then measures it


@pytest.mark.parametrize(
    ("report", "words"),
    [({"error": "line 3, in train: division by zero"}, "line 3, in train"), ({"status": 3}, "last")],
)
def test_a_script_that_fails_is_told_by_its_error(visit, report, words):
    visit("10")
    correct("10", **report)
    for question in ([], ["--ask", "loss"]):
        status, out = visit("10", *question)
        assert status == 1
        assert words in out
    assert progress() == ([], [])


def test_a_script_of_another_encoding_is_named(visit, refused):
    visit("10")
    path = Path("my-exercises", clinic.find_script("10").file)
    path.write_text("# ä\n", encoding="latin-1")
    assert str(path) in refused("learn", "clinic", "10")
