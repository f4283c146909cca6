"""One progress: what is solved in a notebook is solved in the folder, with its code, and the other way round."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer.apps.learn import Book, bank, find, judge_file, judge_in_child, notebook
from minitransformer.apps.learn.model import Parts

pytest.importorskip("IPython", reason="IPython is not installed: pip install -e .[tutorials]")
pytestmark = pytest.mark.numpy_only("exercises are in NumPy")
CELLS = toml_table(__file__, "CELLS")
SHELL = toml_table(__file__, "SHELL")
ANSWERS = toml_table(__file__, "ANSWERS")


def run_cells(folder, *names, **environment):
    """Run cells as a notebook does; return what each prints."""
    return run_texts(folder, *(CELLS[name] for name in names), **environment)


def run_texts(folder, *cells, **environment):
    cells = [CELLS["start"], *cells]
    command = [sys.executable, "-c", SHELL, *cells]
    own = {"IPYTHONDIR": str(folder.parent / "ipython"), "MINITRANSFORMER_RECORD": "1"}
    settings = os.environ | own | environment
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=True)
    return done.stdout.split("----\n")[1:-1]


@pytest.fixture
def notebooks(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def test_what_is_solved_in_a_notebook_is_solved_with_its_code(notebooks):
    book = Book.open(notebooks.parent / "my-exercises")
    warm_up = book.path(find("warm-up"))
    warm_up.write_text("# begun\n")
    names = ["product-rule", "again", "open", "emptied", "product-rule", "lambda", "warm-up", "no code"]
    told = run_cells(notebooks, *names)
    n, place = len(bank()), Path("..", "my-exercises")
    file = {name: str(place / find(name).file) for name in ("product-rule", "chain-rule", "warm-up")}
    expected = [
        [file["product-rule"], f"1 of {n} "],
        [file["product-rule"], "before", "stays"],
        ["replace the `...`", file["product-rule"], 'mt.learn.load("product-rule")'],
        ["replace the `...`"],
        [file["product-rule"], f"1 of {n} "],
        [file["chain-rule"], f"2 of {n} "],
        [file["warm-up"], f"3 of {n} ", f"{warm_up.stem}.kept-1.py"],
        ["not kept", "ufunc"],
    ]
    for name, words, text in zip(names, expected, told, strict=True):
        assert [one for one in words if one not in text] == [], name
    assert [text.splitlines()[0].partition(": ")[2] == "right." for text in told] == [
        *map(bool, [1, 1, 0, 0, 1, 1, 1, 1])
    ]
    assert file["product-rule"] not in told[3]  # its file is empty again
    assert warm_up.with_name(f"{warm_up.stem}.kept-1.py").read_text() == "# begun\n"
    book.reread()
    assert book.done == {"product-rule", "chain-rule", "warm-up", "tanh-from-its-output"}
    for name in ("product-rule", "chain-rule", "warm-up"):
        assert judge_file(find(name), book.path(find(name))).right
    kept = book.path(find("product-rule")).read_text()
    assert [kept.count(f"def {name}(") for name in ("odd", "even", "helper", "your_product")] == [1, 1, 1, 1]
    assert ("factor = 1.0" in kept, "unused" in kept) == (True, False)
    assert {*Parts.open(book.folder).functions} == {"product-rule", "warm-up"}  # as `train --with` does


def test_a_folder_is_made_where_there_is_none_unless_it_cannot_be_written_or_nothing_is_right(notebooks):
    run_cells(notebooks, "product-rule", MINITRANSFORMER_RECORD="0")
    assert not any(notebooks.iterdir())
    (notebooks / "my-exercises").write_text("in the way")
    assert "(not kept: my-exercises cannot be written" in run_cells(notebooks, "product-rule")[0]
    (notebooks / "my-exercises").unlink()
    _, made, said = run_cells(notebooks, "open", "look", "product-rule")
    assert made == "False\n"
    assert "(kept in my-exercises" in said


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_kept_with_all_that_it_uses(notebooks, name):
    told = run_texts(notebooks, *(cell.lstrip("\n") for cell in ANSWERS[name]["cells"].values()))
    exercise = find("product-rule")
    path = notebooks / "my-exercises" / exercise.file
    assert "(kept in" in told[-1], told[-1]
    assert judge_in_child(exercise, path).right
    text = path.read_text("utf-8")
    assert (text.count("import numpy as np"), "mt.learn.check(" in text.partition("if __name__")[0]) in [
        (0, False),
        (1, False),
    ]


def test_what_only_the_notebook_can_run_is_not_kept(notebooks):
    (notebooks / "beside.py").write_text("def product(x, y, d_z):\n    return y * d_z, x * d_z\n")
    cells = ["from beside import product as backward\nmt.learn.check('product-rule', backward)"]
    cells += ["hidden = float(get_ipython().getoutput('echo 1.0')[0])"]
    cells += [
        "def backward(x, y, d_z):\n    return y * d_z * hidden, x * d_z\nmt.learn.check('product-rule', backward)"
    ]
    first, _, last = run_texts(notebooks, *cells)
    assert re.search("the code is not kept: by itself .*`from beside import .*` failed with ModuleNotFoundError", first)
    assert re.search("the code is not kept: by itself .*`hidden = .*` failed with NameError", last)
    assert not re.search(r"Line \d", first + last)  # of a file that nobody can open


def test_a_process_that_ends_without_a_word_gives_no_statements():
    assert (
        notebook._replay(
            [[notebook._Statement(text, frozenset(), frozenset()) for text in ("import os", "os._exit(0)")]]
        )
        == []
    )
