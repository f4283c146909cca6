"""One file of the learner's own functions: it trains by itself, and its check finds a wrong one."""

import re
import subprocess
import sys

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.learn import Book, find, judge_file
from minitransformer.apps.learn.assembly import assemble, parts_needed

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
    defined = re.findall(r"^def (\w+)\(", text.partition("# =====")[0], re.MULTILINE)
    mine = [exercise.name.replace("-", "_") for exercise in parts_needed()]
    assert [name for name in defined if name in mine] == mine  # in the order of the exercises
    assert all(
        any(name.startswith(one) for one in mine) for name in defined
    )  # what else they define is named after them
    imports = re.findall(r"^(?:import|from) .*", text, re.MULTILINE)
    assert sorted(imports) == ["from math import sqrt", "import numpy as np"]
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


def test_the_names_of_several_files_do_not_collide(solved):
    path = solved.path(find("layer-norm-forward"))
    inner = "def forward(x, scale=scale):\n    forward = x.T\n    return forward\n"
    path.write_text(f"scale = 1.0\ndef softmax(x):\n    return x\n{inner}")
    text = assemble(solved.folder)
    assert "layer_norm_forward_scale = 1.0\n\n\ndef layer_norm_forward_softmax(x):" in text
    assert "def layer_norm_forward(x, layer_norm_forward_scale=layer_norm_forward_scale):" in text
    assert "def label_smoothing_backward_softmax(x):" in text


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
