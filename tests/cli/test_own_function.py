"""``minitransformer gradcheck MODULE:FUNCTION`` checks a function of the user's own."""

import re
import sys

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.cli import main, own_function

pytestmark = pytest.mark.numpy_only("checks functions of NumPy arrays")

MODULE = toml_table(__file__, "MODULE")
SIGNATURE = ("--signature", "(B, T, D), (D, F)")


@pytest.fixture
def gradcheck(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with the module above; return its status, output and errors."""
    (tmp_path / "own_layers.py").write_text(MODULE)
    (tmp_path / "broken_layers.py").write_text("import numpy as np\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def gradcheck(*arguments):
        status = main(["gradcheck", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    yield gradcheck
    for name in {"own_layers", "broken_layers"} - before:
        sys.modules.pop(name, None)


def test_a_right_gradient_is_a_table_of_cases(gradcheck, tmp_path):
    path = list(sys.path)
    status, out, _ = gradcheck(
        "own_layers:project", *SIGNATURE, "--dtype", "float32", "--backward", "own_layers:backward", "--plot", "p.png"
    )
    assert status == 0
    rows = dict(re.findall(r"^(.{16})  (\w+)", out, re.M))
    cases = ["sizes differ", *(f"{letter} = {n}" for n in (1, 0) for letter in "BTDF"), "views"]
    assert [case.rstrip() for case in rows] == ["case", *cases]
    assert set(rows.values()) == {"verdict", "right"}
    assert re.search(r"^B = 0 +right$", out, re.M)  # nothing to compare
    assert "the picture of sizes differ is p.png" in out
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert sys.path == path


def test_a_wrong_gradient_ends_with_status_1_and_its_report(gradcheck):
    status, out, _ = gradcheck("own_layers:project", *SIGNATURE, "--backward", "own_layers:wrong", "--plot", "p.png")
    assert status == 1
    first = re.search(r"^(\S.*?)  +wrong", out, re.M)[1]
    assert re.search(rf"^the picture of {first} is p\.png$", out, re.M)  # of the first failure
    assert re.search(r"^T = 1 +wrong +w\[", out, re.M)
    assert "T = 1: project: the gradient is WRONG\n  cause: the sign is wrong" in out
    assert "T = 0: " not in out


@pytest.mark.parametrize(("detects", "status"), [("1e-3", 0), ("1e-14", 1)])
def test_a_check_that_could_not_find_an_error_of_this_size_fails(gradcheck, detects, status):
    arguments = ("own_layers:tensors", "--signature", "(2, 3), (3,)", "--detects", detects)
    found, out, _ = gradcheck(*arguments)
    assert found == status
    verdicts = set(re.findall(r"^.{16}  (right|undecided)", out, re.M))
    assert verdicts == ({"undecided"} if status else {"right"})
    assert (f"detects={detects} " in out) == status


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
def test_all_that_is_asked_for_reaches_the_check(gradcheck, monkeypatch, dtype):
    got, examine = [], own_function.examine

    def note(function, backward, inputs, **options):
        got.append((function.__name__, backward.__name__, *(x.dtype for x in inputs), *options.items()))
        return examine(function, backward=backward, inputs=inputs, **options)

    monkeypatch.setattr(own_function, "examine", note)
    options = ("--backward", "own_layers:backward", "--dtype", dtype, "--seed", "7", "--detects", "0.5")
    gradcheck("own_layers:project", "--signature", "(1, 2, 3), (3, 4)", *options)
    assert {*got} == {("project", "backward", *[np.dtype(dtype)] * 2, ("detects", 0.5), ("seed", 7))}


def test_a_function_of_tensors_needs_no_backward_pass(gradcheck):
    status, out, _ = gradcheck("own_layers:tensors", "--signature", "(..., D), (D, F)")
    assert status == 0
    assert re.search(r"^no leading axes +right", out, re.M)


def test_an_error_of_the_function_is_shown_with_its_lines_and_its_cause(gradcheck):
    status, out, _ = gradcheck("own_layers:fails_later", *SIGNATURE, "--backward", "own_layers:backward")
    assert status == 1
    assert re.search(r"^views +an error$", out, re.M)
    assert "RuntimeError: no such luck" in out
    assert out.count('own_layers.py", line 16') == out.count("ValueError: later") > 0
    assert "minitransformer" not in out


def test_a_wrong_number_of_arguments_is_one_line(gradcheck):
    status, out, _ = gradcheck("own_layers:project", "--signature", "(B, T)", "--backward", "own_layers:backward")
    assert status == 1
    assert re.search(r"^views: TypeError: .*'w'$", out, re.M)
    assert "File" not in out


def test_the_package_of_bfloat16_is_loaded(gradcheck, monkeypatch):
    names = []
    monkeypatch.setattr(own_function.pkgutil, "resolve_name", names.append)
    gradcheck("own_layers:project", *SIGNATURE, "--dtype", "bfloat16")
    assert names[0] == "ml_dtypes"


@cases_from_toml
def test_what_cannot_be_checked_is_refused(gradcheck, arguments, words):
    given = [part for word in arguments.split() for part in (SIGNATURE if word == "SHAPES" else [word])]
    status, out, errors = gradcheck(*given)
    assert (status, out) == (2, "")
    assert all(word in errors for word in words)
    assert len(errors.splitlines()) == 1
