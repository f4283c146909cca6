"""Every action of `learn`: what it shows, what it keeps, and what it says to do next."""

import json
import re
from itertools import groupby
from pathlib import Path

import pytest

from minitransformer.apps.cli.chapter_training import training_command
from minitransformer.apps.learn import Book, bank, find, trainings

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")
NAMES = [exercise.name for exercise in bank()]
MINE = Path("my-exercises")


@pytest.fixture
def learn(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def learn(*words, status=0):
        found, out, err = told("learn", *words)
        assert (found, err) == (status, "")
        return out

    learn("list")
    return learn


def words_of(text):
    return " ".join(text.split())


def write(name, old="", new="", folder=MINE):
    """Solve an exercise, or nearly."""
    assert old in find(name).solution
    (folder / find(name).file).write_text(find(name).solution.replace(old, new), encoding="utf-8")


def done(*open_ones, folder=MINE):
    """Let all exercises but these be done."""
    progress = {"done": [name for name in NAMES if name not in open_ones], "hints": {}, "current": open_ones[0]}
    (folder / ".progress.json").write_text(json.dumps(progress), encoding="utf-8")


def test_the_list_marks_what_is_done_and_what_is_next(learn):
    write("chain-rule")
    learn("check", "chain-rule")
    out = learn("list")
    lines = re.findall(r"^ (.) \[(.)\] (\S+) +(\S.*)$", out, re.M)
    assert [name for *_, name, _ in lines] == NAMES
    assert [name for arrow, *_, name, _ in lines if arrow == ">"] == [NAMES[0]]
    assert [name for _, mark, name, _ in lines if mark == "x"] == ["chain-rule"]
    assert [name for *_, name, title in lines if title.startswith("optional: ")] == [
        one.name for one in bank() if one.optional
    ]
    chapters = [chapter for chapter, _ in groupby(bank(), lambda one: one.chapter)]
    assert re.findall(r"^\d+\. .*$", out, re.M) == chapters
    numbers = [int(chapter.partition(".")[0]) for chapter in chapters]
    commands = [training_command(Book.open(MINE), number) for number in numbers]
    found = words_of(out)
    assert [f"then: `{command}`" in found for command in commands if command] == [True] * len([*filter(None, commands)])
    assert found.count("then: ") == len([*filter(None, commands)])
    assert f"1 of {len(NAMES)}, in {MINE.absolute()}" in out


@pytest.mark.parametrize("right", [0, 1, len(NAMES) // 2, len(NAMES) - 1])
def test_the_bar_is_as_long_as_the_share(learn, right):
    done(*NAMES[right:])
    [(bar, number)] = re.findall(rf"^\[([#.]{{30}})\] (\d+) of {len(NAMES)}$", learn("next"), re.M)
    assert (bar, int(number)) == (("#" * (30 * right // len(NAMES))).ljust(30, "."), right)


def test_hints_come_one_by_one_and_the_last_one_stays(learn):
    hints = find("product-rule").hints
    for number in [*range(1, len(hints) + 1), len(hints)]:
        out = learn("hint", "product-rule")
        assert out.startswith(f"product-rule, hint {number} of {len(hints)}:\n")
        assert words_of(hints[number - 1]) in words_of(out)
        assert all(line.startswith("  ") for line in out.splitlines()[1:])


def test_a_wrong_answer_names_the_hint_that_comes_next(learn):
    write("chain-rule", "return", "return 2 *")
    hints = len(find("chain-rule").hints)
    for seen, words in ((0, "shows a hint"), (1, "shows the next hint"), (hints, "shows it again")):
        progress = Book.open(MINE)
        progress.hints = {"chain-rule": seen} if seen else {}
        progress.save()
        out = words_of(learn("check", "chain-rule", status=1))
        assert f"(`minitransformer learn hint chain-rule` {words})" in out
    done("chain-rule")
    assert "(`minitransformer learn hint` shows a hint)" in learn("check", status=1)  # it is the current one
    write("chain-rule")
    assert "hint" not in learn("check")


def test_an_open_answer_names_a_hint_only_after_the_first(learn):
    assert "hint" not in learn("check", status=1)
    learn("hint")
    assert "`minitransformer learn hint`" in learn("check", status=1)


def test_a_right_answer_leads_to_the_next_exercise_and_its_algebra(learn):
    write(NAMES[0])
    out = learn("check")
    assert f"now: {NAMES[1]}: {find(NAMES[1]).title}" in out
    assert f"     {MINE / find(NAMES[1]).file}\n" in out
    assert f"1 of {len(NAMES)}" in out
    named = next(one for one in bank() if one.derivation)
    write(named.name)
    out = learn("check", named.name)
    assert f"docs/derivations/{named.derivation}.md" in out
    assert "now:" not in out  # it was not the current one
    write("unbroadcast")
    assert "learn train" not in learn("check", "unbroadcast")  # others of its chapter are open


@pytest.mark.parametrize("name", ["product-rule", "relu-and-its-corner"])
def test_a_solution_is_a_file_that_is_right(learn, name):
    out = learn("solution", name)
    assert find(name).solution.rstrip() in out
    assert (f"docs/derivations/{find(name).derivation}.md" in out) == bool(find(name).derivation)
    (MINE / find(name).file).write_text(out, encoding="utf-8")
    learn("check", name)


def test_an_exercise_may_be_named_by_its_file_in_the_own_folder_only(learn, refused):
    learn("list", "--folder", "other")
    write("chain-rule", folder=Path("other"))
    path = Path("other", find("chain-rule").file)
    message = refused("learn", "check", path)
    assert str(path) in message
    assert f"--folder {Path('other').absolute()}" in message
    learn("check", path, "--folder", "other")
    assert (Book.open(Path("other")).done, Book.open(MINE).done) == ({"chain-rule"}, set())
    write("chain-rule")
    learn("check", MINE / find("chain-rule").file)


def test_the_last_exercises_lead_to_the_training(learn):
    chapters = {trainings.chapter_of(exercise) for exercise in bank()}
    for name in NAMES:
        write(name)
    last_of_3 = [one.name for one in bank() if trainings.chapter_of(one) == 3][-1]
    done("top-p", last_of_3)
    out = words_of(learn("check", last_of_3))
    assert f"`{training_command(Book.open(MINE), 3)}`" in out
    assert "assemble" not in out
    assert "Chapter 3" not in words_of(learn("check", last_of_3))  # said once
    assert f"now: {NAMES[NAMES.index('top-p')]}" in learn("next")  # the only one that is open
    out = words_of(learn("check"))
    last = training_command(Book.open(MINE), max(chapters))
    assert f"`{last}`" in out
    assert "`minitransformer learn assemble`" in out
    assert "assemble" not in learn("check", "top-p")
    assert f"`{last}`" in words_of(learn("next"))
    assert last in learn("train")


def test_a_whole_model_is_trained_by_another_command(learn):
    """`tests/learn/test_trainings.py` trains those of other chapters, and refuses what has no training."""
    lines = [line for line in learn("train", "6").splitlines() if line.startswith("    minitransformer train")]
    assert len(lines) == 1
    assert "copy --with my-exercises --solved" in lines[0]


def test_weight_decay_is_refused_where_adam_is_the_learners(learn, told):
    write("adam-step")
    data = ["--held-out", "2", "--train-pairs", "20", "--workers", "1"]
    status, _, err = told("train", "reverse", *data, "--out", "run", "--with", MINE, "--weight-decay", "0.1")
    assert (status, Path("run").exists()) == (2, False)
    assert all(words in err for words in ("adam-step", "--weight-decay", "--but adam-step"))
