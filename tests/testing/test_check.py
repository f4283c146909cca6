"""The checker for functions of plain arrays: each verdict, with its cause, and misuse."""

import inspect
import pydoc
import re
import sys

import numpy as np
import pytest
from check_cases import W, X, each_type, verdict

import minitransformer as mt
from minitransformer.testing import CheckError, check, examine


def test_the_error_of_a_right_gradient_falls_as_the_square_of_the_step():
    report = verdict(np.exp, lambda x, d_y: d_y * np.exp(x), [0.5, 1.0])
    (h0, e0), (h1, e1) = report.errors[:2]
    assert h0 / h1 == 4
    assert e0 / e1 == pytest.approx(16, rel=0.1)
    wrong = verdict(np.exp, lambda x, d_y: d_y * x, [0.5, 1.0])
    assert wrong.errors is wrong.errors  # measured once
    assert wrong.errors[3][1] == pytest.approx(wrong.errors[4][1], rel=1e-3)


def test_an_error_that_stays_shows_a_mistake_within_any_tolerance():
    def backward(x, d_y):
        return d_y * np.cos(x) * (1 + 3e-8)

    assert verdict(np.sin, backward, [0.5, 1.0, -0.3]).verdict == "wrong"
    assert verdict(np.sin, lambda x, d_y: d_y * np.cos(x) * (1 + 1e-12), [0.5, 1.0, -0.3]).verdict == "right"


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-8, -1e-3, -1e-6, -1e-8])
@each_type
def test_a_kink_nearby_is_no_kink_here(distance, dtype):
    def relu(x):
        return np.maximum(x, 0)

    x = [distance, 2.0, -3.0, 1.0]
    assert verdict(relu, lambda x, d_y: d_y * (x > 0), x, dtype=dtype).verdict == "right"
    assert verdict(relu, lambda x, d_y: d_y * (x > 1.5), x, dtype=dtype).verdict == "wrong"


def test_a_jump_has_no_gradient_to_accept():
    with pytest.raises(CheckError, match=r"x\[0\]"):
        check(np.floor, backward=lambda x, d_y: 0 * d_y, inputs=[np.array([1, 0.3])], kinks="accept", names=["x"])


def test_check_states_the_arguments_of_examine():
    assert inspect.signature(check) == inspect.signature(examine)
    assert re.search("max_entries: '?int'? = 256", pydoc.plain(pydoc.render_doc(check)))


def test_functions_of_tensors(monkeypatch):
    monkeypatch.delitem(sys.modules, "autograd", raising=False)  # which would differentiate a NumPy function
    assert check(mt.ops.softmax, inputs=[X]).verdict == "right"
    assert check(lambda x, w: mt.tanh(x * w), inputs=[X.astype(np.float32), W.astype(np.float32)]).verdict == "right"
    wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (x * d_y,), name="square")
    assert "0.5 times" in examine(wrong, inputs=[X]).cause
    assert "backward=" in examine(lambda x: x.data, inputs=[X]).cause
    with pytest.raises(TypeError) as error:
        examine(np.sin, inputs=[X])
    assert "backward=" in error.value.__notes__[0]


def test_no_line_of_the_checker_is_to_blame_for_infinity():
    cause = examine(np.exp, inputs=[np.array([1.0, 1e3])], backward=lambda x, d_y: np.exp(x) * d_y).cause
    assert cause == "the value is inf at [1]"


def test_gradcheck_of_a_function_of_arrays_names_the_check_that_takes_one():
    with pytest.raises(ValueError, match=r"testing\.check.*backward="):
        mt.testing.gradcheck(lambda x: x.data, [X])
    with pytest.raises(TypeError) as error:
        mt.testing.gradcheck(np.sin, [X])
    assert error.value.__notes__[0].startswith("gradcheck of sin")
    assert "testing.check" in error.value.__notes__[0]


# --- what a user may hand over by mistake


@pytest.mark.parametrize(("b", "kind"), [(1.5, "float"), (2, "int"), (np.array(2), "int64"), (2j, "complex")])
def test_a_gradient_of_a_number_is_not_ignored(b, kind):
    report = examine(lambda x, b: x * b, backward=lambda x, b, d_y: (d_y * b, 7 * (d_y * x).sum()), inputs=[X, b])
    assert report.verdict == "malformed"
    assert report.cause.startswith(f"b is of type {kind} and is not checked")


@pytest.mark.parametrize("gradient", [None, 0])
def test_a_number_without_a_gradient_is_no_input(gradient):
    check(lambda x, b: x * b, backward=lambda x, b, d_y: (d_y * b, gradient), inputs=[X, 1.5])


def test_gradients_that_are_swapped_are_seen_by_their_shapes():
    shapes = examine(np.matmul, backward=lambda x, y, d_y: (x.T @ d_y, d_y @ y.T), inputs=[X, W[:, None] + X.T[:, :2]])
    assert shapes.cause.endswith("the gradient of x1 is that of x2: are they swapped?")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_gradient_of_float64_in_a_shorter_type(dtype):
    report = verdict(np.sin, lambda x, d_y: (d_y * np.cos(x)).astype(dtype), X)
    assert report.verdict == "wrong"
    assert f"precision of {np.dtype(dtype)}" in report.cause


# --- right ones that looked wrong


@each_type
def test_the_smallest_entry_is_moved_by_its_own_size_where_a_typical_step_leaves_the_domain(dtype):
    assert verdict(np.log, lambda x, d_y: d_y / x, [1e-30, 1e-10, 1.0, 1e20], dtype=dtype).verdict == "right"
    report = verdict(np.log, lambda x, d_y: 1.001 * d_y / x, [1e-30, 1e-10, 1.0, 1e20], dtype=dtype)
    assert report.verdict == "wrong"


def test_noise_in_the_value_is_no_jump():
    hilbert = 1 / (1.0 + np.add.outer(np.arange(6), np.arange(6)))

    def backward(a, d_y):
        return -np.outer(np.linalg.solve(a.T, d_y), np.linalg.solve(a, np.ones(6)))

    report = examine(lambda a: np.linalg.solve(a, np.ones(6)), backward=backward, inputs=[hilbert])
    assert report.verdict in ("right", "undecided")


def test_directions_in_many_entries_stay_inside_the_domain():
    x = np.abs(np.random.default_rng(0).normal(size=300)) + 0.1
    x[7] = 1e-30
    arguments = {"max_entries": 4, "n_directions": 2}
    assert verdict(np.log, lambda x, d_y: d_y / x, x, **arguments).verdict == "right"
    assert verdict(np.log, lambda x, d_y: np.where(x < 1e-9, 1.5, 1) * d_y / x, x, **arguments).verdict == "wrong"


def test_help_describes_every_argument_of_check():
    """In a terminal there is no link to follow."""
    described = {
        name.strip()
        for line in re.findall(r"^(\w[\w, ]*) :", inspect.cleandoc(check.__doc__), re.M)
        for name in line.split(",")
    }
    assert described >= {*inspect.signature(check).parameters} == {*inspect.signature(examine).parameters}
    assert "CheckError" in check.__doc__
    assert ">>>" in check.__doc__
