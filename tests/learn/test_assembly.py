"""One file of the learner's own functions: it trains by itself, and its check finds a wrong one."""

import re
import subprocess
import sys

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.learn import Book, Verdict, find, judge_file
from minitransformer.apps.learn.assembly import FILE, assemble, check_assembled, parts_needed
from minitransformer.apps.learn.child import Ended

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")


@pytest.fixture
def solved(tmp_path):
    book = Book.open(tmp_path / "my-exercises")
    for exercise in parts_needed():
        book.path(exercise).write_text(exercise.solution, encoding="utf-8")
    return book


def run(text, folder):
    """Run the file, with fewer steps and held-out numbers, where this package cannot be imported."""
    path = folder / "whole.py"
    text = text.replace("STEPS, WARMUP = 32, 1000, 200", "STEPS, WARMUP = 32, 100, 60").replace(
        "10000), 99", "10000), 9"
    )
    path.write_text(text, encoding="utf-8")
    command = (
        "import sys, runpy; sys.modules['minitransformer'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", command, str(path)], capture_output=True, encoding="utf-8", check=False
    )


def test_it_trains_by_itself_and_its_gradients_are_right(solved, tmp_path):
    text = assemble(solved.folder)
    mine = [exercise.name.replace("-", "_") for exercise in parts_needed()]
    assert re.findall(r"^(\w+) = mine\(", text, re.MULTILINE) == mine  # in the order of the exercises
    own = text.partition("# =====")[0]
    assert not any(line in own for line in (find("softmax-backward").title, "mt.learn"))  # no texts of exercises
    done = run(text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^the gradients of all \d+ parameters are right$", done.stdout, re.MULTILINE)
    assert float(re.search(r"step  100  loss (\d\.\d+)", done.stdout)[1]) < 2


def test_each_step_moves_every_parameter(solved):
    text = assemble(solved.folder).replace("STEPS, WARMUP = 32, 1000, 200", "STEPS, WARMUP = 32, 2, 5")
    names, steps, asked = {"__name__": "whole"}, [], []
    exec(text, names)
    names["translate"] = lambda p, numbers: asked.append(numbers) or [""] * len(numbers)
    step, n = names["adam_step"], len(names["initial"](np.random.default_rng(0)))
    names["adam_step"] = lambda *given: steps.append(given[4:]) or step(*given)
    names["train"]()
    rates = [names["warm_up"](t, names["D"], 5) for t in (1, 2)]
    assert steps == [(t, rate, 0.9, 0.98, 1e-9) for t, rate in enumerate(rates, start=1) for _ in range(n)]
    assert [len({*numbers}) for numbers in asked] == [100]  # those that were held out


@cases_from_toml
def test_its_check_finds_a_wrong_function(solved, tmp_path, name, old, new):
    path = solved.path(find(name))
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    assert "is off: the relative error is" in run(assemble(solved.folder), tmp_path).stderr


@cases_from_toml
def test_right_answers_stay_right_whatever_names_they_use(solved, files):
    for name, text in files.items():
        path = solved.path(find(name))
        path.write_text(f'"""Mine."""\n{text}', encoding="utf-8")
        assert judge_file(find(name), path).right
    check_assembled(assemble(solved.folder), solved.folder / FILE)


def test_an_error_shows_the_line_of_the_learners_file(solved, tmp_path):
    solved.path(find("softmax-backward")).write_text("def backward(y, d_y):\n    return y @ 3  # wrong\n", "utf-8")
    told = run(assemble(solved.folder), tmp_path).stderr
    assert re.search(r'whole\.py", line \d+, in backward\n    return y @ 3  # wrong', told)


def test_nothing_is_written_if_the_check_of_the_whole_fails(solved, capsys, monkeypatch):
    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", lambda *_: Verdict(True, ""))
    path = solved.path(find("softmax-backward"))
    path.write_text(path.read_text("utf-8").replace("d_y - row_sum", "d_y"), "utf-8")
    assert main(["learn", "assemble", "--folder", str(solved.folder)]) == 1
    assert re.search(r"(?s)my_transformer\.py\s+is not written.*the gradient\s+of \w+ is off", capsys.readouterr().out)
    assert not (solved.folder / FILE).exists()
    path.write_text("raise SystemExit(0)\n", "utf-8")
    with pytest.raises(Ended, match="SystemExit"):
        check_assembled(assemble(solved.folder), solved.folder / FILE)


def test_the_check_of_the_whole_names_the_file_and_the_line_that_failed(solved):
    path = solved.path(find("softmax-backward"))
    text = path.read_text("utf-8").replace("    row_sum", "    len([][:1]) or int(__name__[0])\n    row_sum")
    number = 1 + text[: text.index("    len([]")].count("\n")
    for quotes in ("", "'''", "''' \"\"\" "):  # which no string of the whole can hold as they are
        path.write_text(f"{text}# {quotes}\n", encoding="utf-8")
        with pytest.raises(Ended, match="ValueError") as caught:
            check_assembled(assemble(solved.folder), solved.folder / FILE)
        assert f"{path}, line {number}, in backward, " in str(caught.value)
    path.write_text("\n\nraise SystemExit\n", encoding="utf-8")
    with pytest.raises(Ended, match=rf"{re.escape(str(path))}, line 3, in <module>, .*SystemExit$"):
        check_assembled(assemble(solved.folder), solved.folder / FILE)


def test_the_file_says_which_packages_it_needs(solved):
    assert "It needs NumPy alone." in assemble(solved.folder)
    path = solved.path(find("softmax-backward"))
    text = "import os.path, yaml.nodes\n\n\ndef late():\n    from minitransformer import ops\n\n\n"
    path.write_text(text + find("softmax-backward").solution, encoding="utf-8")
    assert "It needs NumPy and minitransformer, yaml." in assemble(solved.folder)


def test_the_command_names_what_is_missing_and_keeps_an_edited_file(solved, capsys, monkeypatch):
    monkeypatch.setattr("minitransformer.apps.cli.learn.judge_in_child", judge_file)  # says the same, in less time
    path = solved.path(find("adam-step"))
    path.write_text(find("adam-step").text, encoding="utf-8")
    solved.finish(find("chain-rule"))  # which is no part
    words = ["learn", "assemble", "--folder", str(solved.folder)]
    assert main(words) == 1
    n = len(parts_needed())
    assert re.search(rf"{n - 1} of {n} functions.*\n\n  adam-step  .*\n$", capsys.readouterr().out)
    path.write_text(find("adam-step").solution, encoding="utf-8")
    whole, edited = solved.folder / "my_transformer.py", solved.folder / "my_transformer.kept-1.py"
    for before, kept in ((None, ""), ("mine", f"{edited}"), (assemble(solved.folder), "")):
        if before:
            whole.write_text(before, encoding="utf-8")
        assert main(words) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert told.startswith(f"{whole} is your Transformer: {n} functions")
        assert f"`python {whole}`" in told
        assert "kept" not in told if not kept else kept in told
        assert whole.read_text("utf-8") == assemble(solved.folder)
    assert (edited.read_text(), [*solved.folder.glob("*kept*")]) == ("mine", [edited])
    assert {"chain-rule", *(one.name for one in parts_needed())} == Book.open(solved.folder).done
