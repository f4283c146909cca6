"""The bank: every exercise fails unsolved with a friendly message, passes solved, and has all that belongs to it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.learn import bank, find, judge_file
from minitransformer.apps.learn.bank import FOOTER

ROOT = Path(__file__).parents[2]
EXERCISES = bank()
by_name = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)


def written(folder, exercise, text):
    path = folder / exercise.file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def code(text):
    """Return what a learner reads and writes: without the docstring and the footer."""
    return text.split('"""', 2)[2].partition('\nif __name__ == "__main__"')[0]


def test_no_file_is_left_over_and_none_shares_its_name_or_title():
    root = ROOT / "minitransformer" / "apps" / "learn" / "exercises"
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py")}
    assert found == {exercise.file for exercise in EXERCISES} | {"whole.py"}
    for what in ("name", "title", "file"):
        assert len({getattr(exercise, what) for exercise in EXERCISES}) == len(EXERCISES)


@pytest.mark.parametrize("lacking", ["no_check", "softmax_forward"])
def test_an_exercise_without_a_check_or_a_file_is_named(tmp_path, monkeypatch, lacking):
    (tmp_path / "01-first").mkdir()
    entry = f'[exercises.{lacking}]\ntitle = "A"\ntutorial = "05-softmax#a"\nhints = []\n'
    (tmp_path / "01-first" / "chapter.toml").write_text(f'title = "First"\n{entry}')
    monkeypatch.setattr(sys.modules["minitransformer.apps.learn.bank"], "SOURCES", tmp_path)
    with pytest.raises(LookupError, match=rf"{lacking} .*01-first/01_{lacking}\.py"):
        bank.__wrapped__()


@by_name
def test_the_source_is_the_solution_and_nothing_of_its_marks_is_left(exercise):
    assert exercise.source.count("# [solution\n") == exercise.source.count("# solution] in the exercise:\n") == 1
    for text in (exercise.text, exercise.solution):
        assert re.search(r"#:|\[solution|solution\]", text) is None
    assert ast.dump(ast.parse(exercise.source)) == ast.dump(ast.parse(exercise.solution.removesuffix(FOOTER)))


@by_name
def test_unsolved_it_fails_with_a_friendly_message(exercise, tmp_path, capfd):
    verdict = judge_file(exercise, written(tmp_path, exercise, exercise.text))
    assert not verdict.right
    assert not verdict.solved
    assert verdict.words.startswith("The TODO is not done yet")
    assert "Traceback" not in capfd.readouterr().err


@by_name
def test_solved_it_passes(exercise, tmp_path, capfd):
    verdict = judge_file(exercise, written(tmp_path, exercise, exercise.solution))
    assert verdict.right, verdict.words
    assert capfd.readouterr() == ("", "")


@by_name
def test_it_is_one_idea_with_one_todo_and_three_hints(exercise):
    """Ten to thirty lines of code or so, eighty columns, plain NumPy; what is before the TODO is the solution's."""
    assert (exercise.text.count("TODO"), exercise.solution.count("TODO")) == (1, 0)
    assert exercise.solution.startswith(exercise.text.partition("TODO")[0].rpartition("\n")[0])
    assert 2 <= sum(bool(line.strip()) for line in code(exercise.text).splitlines()) <= 45
    assert max(map(len, exercise.text.splitlines())) <= 80
    imported = set(re.findall(r"^(?:from|import) (\w+)", code(exercise.text), re.M))
    assert imported <= {"numpy", "math", "__future__"}
    assert len({hint for hint in exercise.hints if len(hint) > 20}) == len(exercise.hints) == 3


def test_the_derivation_of_an_exercise_exists():
    linked = {exercise.derivation for exercise in EXERCISES} - {""}
    assert linked < {path.stem for path in (ROOT / "docs" / "derivations").glob("*.md")}


def test_a_file_runs_by_itself(tmp_path):
    exercise = find("product-rule")
    path = tmp_path / Path(exercise.file).name
    path.write_text(exercise.solution, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert "product-rule: right." in done.stdout
    assert exercise.text.rpartition("\nif __name__")[2] == exercise.solution.rpartition("\nif __name__")[2]


def test_an_exercise_is_found_by_name_or_file_or_the_nearest_is_named():
    exercise = find("chain-rule")
    assert find("chain_rule") is exercise
    assert find(f"my-exercises/{exercise.file}") is exercise


@cases_from_toml
def test_a_name_that_is_none_is_answered_by_similar_ones_if_there_are_any(name, words):
    with pytest.raises(LookupError, match=words):
        find(name)
