"""The command `learn`, as a learner uses it: nothing of theirs is lost, and what it says helps."""

import functools
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.cli.learn import _introduce
from minitransformer.apps.learn import Book, bank, find, judge_file, judge_in_child
from minitransformer.arrays import backend, xp


@pytest.fixture
def learn(tmp_path, capsys):
    folder = tmp_path / "my-exercises"

    def run(*words):
        status = main(["learn", *words, "--folder", str(folder)])
        return status, capsys.readouterr().out

    run.folder = folder
    return run


def solve(folder, name):
    exercise = find(name)
    (folder / exercise.file).write_text(exercise.solution, encoding="utf-8")


def at_each_look(monkeypatch, *actions):
    """Do one thing more each time that the watcher looks at the files; it must not look again after the last."""
    todo = iter(actions)
    monkeypatch.setattr("minitransformer.apps.cli.learn.time.sleep", lambda seconds: next(todo)())


@pytest.fixture
def left(learn):
    """Return a function that leaves the first exercises open, so many, and returns their names."""

    def leave(n):
        learn("list")
        names = [exercise.name for exercise in bank()]
        Book(learn.folder, done=set(names[n:]), current=names[0]).save()
        return names[:n]

    return leave


def test_watching_checks_what_is_saved(learn, left, monkeypatch):
    first, second = left(2)
    at_each_look(
        monkeypatch,
        lambda: None,
        lambda: solve(learn.folder, first),
        lambda: None,
        lambda: solve(learn.folder, second),
    )
    status, text = learn()
    assert status == 0
    assert text.index(f"{first}: The TODO") < text.index(f"{first}: right.") < text.index(f"{second}: right.")
    assert f"now: {second}" in text


def test_what_is_saved_during_the_first_check_is_noticed(learn, left, monkeypatch):
    [name] = left(1)

    def slow(exercise, path):
        verdict = judge_in_child(exercise, path)
        solve(learn.folder, name)
        return verdict

    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", slow)
    at_each_look(monkeypatch, lambda: None)
    text = learn()[1]
    assert text.index(f"{name}: The TODO") < text.index(f"{name}: right.")


def test_what_another_terminal_does_while_files_are_watched_is_kept(learn, left, monkeypatch):
    names = left(3)

    def elsewhere():
        other = Book.open(learn.folder)
        other.next_hint(find(names[1]))
        other.finish(find(names[2]))
        solve(learn.folder, names[0])

    def skip():
        other = Book.open(learn.folder)
        other.advance()
        other.save()

    at_each_look(monkeypatch, skip, elsewhere, lambda: solve(learn.folder, names[1]))
    status, text = learn()
    assert status == 0  # all are right, the other terminal's one too
    assert text.index(f"now: {names[1]}") < text.index(f"{names[0]}: right.")
    kept = Book.open(learn.folder)
    assert kept.done == {exercise.name for exercise in bank()}
    assert kept.hints == {names[1]: 1}


def test_watching_goes_on_after_an_endless_loop(learn, left, monkeypatch):
    [name] = left(1)
    (learn.folder / find(name).file).write_text("n = 0\nwhile True:\n    n += 1\n")
    options = iter([{"patience": 0.02, "seconds": 0.1}, {}])
    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", lambda *a: judge_in_child(*a, **next(options)))
    at_each_look(monkeypatch, lambda: solve(learn.folder, name))
    status, text = learn()
    assert status == 0
    assert text.index("is running:") < text.index("Is there an endless loop?") < text.index(f"{name}: right.")


def test_ctrl_c_during_a_check_stops_the_watching(learn, monkeypatch):
    learn("list")
    (learn.folder / bank()[0].file).write_text("while True:\n    pass\n")

    def interrupt(words):
        Book(learn.folder, current="chain-rule").save()  # in another terminal
        raise KeyboardInterrupt

    limited = functools.partial(judge_in_child, patience=0.02, tell=interrupt)
    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", limited)
    status, text = learn()
    assert status == 0
    assert re.search(r"Until next time;[^;]* goes on with chain-rule\.$", " ".join(text.split()))
    assert multiprocessing.active_children() == []


def test_the_folder_is_found_from_inside_it(learn, monkeypatch, tmp_path, capsys):
    learn("list")
    solve(learn.folder, "product-rule")
    monkeypatch.chdir(learn.folder / "03-arrays")
    assert main(["learn", "check"]) == 0
    (learn.folder / find("chain-rule").file).write_text(find("chain-rule").solution.replace("return", "return 2 *"))
    assert main(["learn", "check", "chain-rule"]) == 1
    assert "`minitransformer learn hint` shows" in capsys.readouterr().out  # no --folder is needed
    assert Book.open(learn.folder).done == {"product-rule"}
    assert [path.name for path in tmp_path.rglob("my-exercises")] == ["my-exercises"]
    assert main(["learn", "list", "--folder", "other"]) == 0
    assert Path("other", ".progress.json").is_file()


@pytest.mark.parametrize(("language", "folder"), [("en", "tutorials"), ("ko", "tutorials/ko")])
def test_what_to_read_is_there_in_the_learners_language(monkeypatch, capsys, tmp_path, language, folder):
    def sections(notebook):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        text = "".join("".join(["\n", *cell["source"]]) for cell in cells if cell["cell_type"] == "markdown")
        return [plain(heading) for heading in re.findall("^## (.*)", text, re.M)]

    def plain(heading):
        return re.sub(r"[^\w ]", "", heading.replace("-", " ")).lower()

    monkeypatch.setenv("MINITRANSFORMER_LANG", language)
    monkeypatch.chdir(Path(__file__).parents[2])
    for exercise in bank():
        _introduce(Book(tmp_path, current=exercise.name))
        path, heading = re.search(r": (.*)\n +'(.*)'\n", capsys.readouterr().out).groups()
        name, _, place = exercise.tutorial.partition("#")
        english, shown = map(sections, (Path(f"tutorials/{name}.ipynb"), Path(path)))
        assert path == f"{folder}/{name}.ipynb"
        assert plain(heading) == shown[english.index(place.replace("-", " "))]
    other = tmp_path / ("tutorials" if language == "ko" else "tutorials/ko") / "02-a-derivative-on-a-graph.ipynb"
    other.parent.mkdir(parents=True)
    other.touch()  # in the other language alone
    monkeypatch.chdir(tmp_path)
    _introduce(Book(tmp_path, current="product-rule"))
    assert ": `minitransformer tutorials 2`\n" in capsys.readouterr().out


def test_the_array_library_is_afterwards_what_it_was(learn, monkeypatch):
    learn("list")
    monkeypatch.setitem(vars(xp), "_backend", "cupy")
    learn("check")
    path = learn.folder / bank()[0].file
    assert mt.learn.check_file(path) is False
    path.write_text(bank()[0].solution, encoding="utf-8")
    assert mt.learn.check_file(path) is True
    assert backend() == "cupy"


def test_eighty_columns_and_no_colour(learn, monkeypatch):
    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", judge_file)  # says the same, in less time
    commands = [(action, *name) for action in ("hint", "check") for name in [(e.name,) for e in bank()]]
    text = "\n".join(learn(*words)[1] for words in [("list",), ("next",), *commands])
    text = text.replace(str(learn.folder), "my-exercises")
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "\x1b" not in text


def test_a_terminal_without_greek(tmp_path, monkeypatch):
    for words in (["list"], ["hint"], ["solution", "chain-rule"]):
        terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["learn", *words, "--folder", str(tmp_path / "δ")]) == 0
        print("δ")  # as where a verdict shows an answer
        assert b"?" in terminal.buffer.getvalue()


@cases_from_toml
def test_a_question_in_a_notebook_that_is_no_exercise(capsys, found, expected, said):
    mt.learn.compare("the answer", eval(found, {"np": np}), eval(expected, {"np": np}), tolerance=0.25)
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
def test_a_cell_of_a_notebook_that_is_to_be_filled_in_says_so(capsys, exercise):
    """Nothing is written yet: functions return `...`, or the answer itself is one."""
    asks_for_values = all(name.isupper() for name in exercise.asks_for)
    for answer in [...] if asks_for_values else [..., lambda *_, **__: ...]:
        mt.learn.check(exercise.name, *[answer] * len(exercise.asks_for))
        assert capsys.readouterr().out == f"{exercise.name}: replace the `...`, then run this cell again.\n"


def test_the_command_is_in_numpy_whatever_the_environment_says(tmp_path):
    command = [sys.executable, "-m", "minitransformer", "learn", "check", "--folder", str(tmp_path / "x")]
    environment = os.environ | {"MINITRANSFORMER_BACKEND": "no-such-library"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(mt.__file__).parents[1])
    assert "not done yet" in done.stdout, done.stderr
