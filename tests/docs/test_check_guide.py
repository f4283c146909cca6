"""The guide to checking a function of one's own is run, section by section, and shows what happens."""

import linecache
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase

from minitransformer.apps.cli import main
from minitransformer.pytest_plugin import row
from minitransformer.testing import check

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "check-your-own-function.md"
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE.read_text(encoding="utf-8"), re.M | re.S))
RUN = {
    "A NumPy function": "numpy",
    "A layer norm in PyTorch": "torch",
    "A JAX function": "jax",
    "Columns of a pandas DataFrame": "pandas",
    "Several values and complex numbers": "numpy",
    "Second derivatives": "numpy",
    "An operation of this project": "numpy",
}
"""Sections whose code is run as it stands, with the library that each needs."""
STEADY = "derandomize=True, max_examples=500, phases=[Phase.generate]"
"""Settings with which a test of Hypothesis stops at the same failure each time, without a search for a smaller one."""

pytestmark = pytest.mark.numpy_only("the guide passes NumPy arrays")


def blocks(title):
    """Return the language and the text of each block of a section."""
    return re.findall(r"^```(\S+)\n(.*?)^```$", SECTIONS[title], re.M | re.S)


def run(code, names):
    """Run code as if it stood in a file, so that messages can show its lines."""
    linecache.cache["example.py"] = (len(code), None, code.splitlines(keepends=True), "example.py")
    exec(compile(code, "example.py", "exec"), names)


def stable(text):
    """Leave out what differs from machine to machine: errors of rounding, late digits, and where lines break."""
    text = re.sub(r"\d\.\de[+-]\d+", "#", text)
    text = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.3g}", text)
    return re.sub(r"\s+", " ", text).strip()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", RUN)
def test_a_section_shows_what_happens(title, capsys):
    pytest.importorskip(RUN[title])
    names, said = {}, ""
    for language, text in blocks(title):
        if language == "text":
            assert stable(said) == stable(text)
            said = ""
        else:
            try:
                run(text, names)
            except AssertionError as error:
                said = str(error)
            said += capsys.readouterr().out
    assert not said


def test_the_formulas_of_the_cupy_kernels_are_right():
    """The kernels themselves need a GPU."""
    ((_, code),) = blocks("A CuPy kernel")
    compile(code, "example.py", "exec")
    value = re.search(r'"y = (.*?)"', code)[1]
    lines = re.findall(r"^ *(?:T )?(\w+) = (.*?);$", code, re.M)
    assert [name for name, _ in lines] == ["s", "slope", "d_x", "d_beta"]

    def forward(x, beta):
        return eval(value, {"x": x, "beta": beta, "exp": np.exp})

    def backward(x, beta, d_y):
        names = {"x": x, "beta": beta, "d_y": d_y, "exp": np.exp}
        for name, formula in lines:
            names[name] = eval(formula, names)
        return names["d_x"], names["d_beta"].sum()

    x = np.random.default_rng(0).standard_normal((3, 4))
    check(forward, backward=backward, inputs=[x, np.array(1.5)])


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_the_test_with_a_signature_fails_as_shown():
    (_, code), (_, shown) = blocks("Many inputs in a test")
    names = {"Phase": Phase}
    code = code.replace("deadline=None", f"deadline=None, {STEADY}")
    # The examples that pass would take seconds.
    run(code.replace("    check(", "    if inputs[0].shape[1] == 0:\n        check("), names)
    with pytest.raises(AssertionError) as error:
        names["test_average"]()
    assert stable(str(error.value)) == stable(shown)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_the_command_shows_what_it_finds(tmp_path, monkeypatch, capsys):
    (_, code), _ = blocks("Many inputs in a test")
    (_, command), (_, shown) = blocks("On the command line")
    (tmp_path / "my_module.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command.replace("\\\n", ""))[1:]) == 1
    found = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    found, shown = (re.sub("right .*", "right", text) for text in (found, shown))  # the worst of errors of rounding
    assert stable(found) == stable(shown)


def test_the_table_of_pytest_holds_what_the_sections_show():
    pytest.importorskip("torch")
    ((_, table),) = blocks("A table of failures in pytest")
    (_, code), *_ = blocks("A layer norm in PyTorch")
    with pytest.raises(AssertionError) as error:
        run(code, {})
    *cells, cause = row(error.value.report)
    assert stable(" ".join(cells)) in stable(table)
    assert stable(cause) in stable(table)
