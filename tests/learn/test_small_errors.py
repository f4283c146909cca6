"""Errors that are easy to miss: tiny entries beside large ones, shapes of zeros, arrays written to, and where an
error is shown."""

import numpy as np
import pytest

from minitransformer.apps.learn import bank, check
from minitransformer.apps.learn.verdict import Unsolved, Wrong, agree, check_gradients
from minitransformer.arrays import BackendError

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


SCALE = np.array([[1e6, 1.0, 1e6], [1e6, 1e6, 1e6]])


@pytest.mark.parametrize("solution", [None, lambda d: [SCALE * d]])
def test_a_tiny_wrong_entry_beside_large_ones_is_wrong(solution):
    error = np.where(SCALE == 1, 1.001, 1.0)
    check_gradients(lambda d: SCALE * d, lambda x: SCALE * x, {"x": X.copy()}, solution=solution)
    with pytest.raises(Wrong, match="d_x: the error is so small") as caught:
        check_gradients(lambda d: error * SCALE * d, lambda x: SCALE * x, {"x": X.copy()}, solution=solution)
    assert not isinstance(caught.value, Unsolved)


def test_a_gradient_far_from_the_solution_is_refused_without_finite_differences():
    calls = []
    with pytest.raises(Wrong, match=r"every entry is 1\.5 times"):
        check_gradients(lambda d: 3 * d, lambda x: calls.append(x) or 2 * x, {"x": X}, solution=lambda d: [2 * d])
    assert len(calls) == 1


@pytest.mark.parametrize("shape", [(2,), (3, 2), (1, 2, 3), ()])
def test_zeros_of_a_wrong_shape_are_wrong(shape):
    unused = {"x": X.copy(), "y": X.copy()}
    check_gradients(lambda d: (d, np.zeros_like(X)), lambda x, y: x + 0 * y, unused)
    with pytest.raises(Wrong, match="d_y has the wrong shape"):
        check_gradients(lambda d: (d, np.zeros(shape)), lambda x, y: x + 0 * y, unused)


def test_check_says_whether_an_answer_is_right_and_takes_as_many_as_are_asked_for(capsys):
    exercise = bank()[0]
    names = {"__name__": "solution"}
    exec(exercise.solution, names)
    answers = [names[name] for name in exercise.asks_for]
    check(exercise.name, *answers)
    check(exercise.name, *[lambda *_: None] * len(answers))
    out = capsys.readouterr().out
    assert out.startswith(f"{exercise.name}: right.\n{exercise.name}: ")
    for given in (answers[1:], [*answers, print]):
        with pytest.raises(TypeError, match=f"after the name, found {len(given)}"):
            check(exercise.name, *given)


def test_answers_are_judged_in_numpy_alone(monkeypatch):
    monkeypatch.setattr("minitransformer.apps.learn.backend", lambda: "cupy")
    exercise = bank()[0]
    with pytest.raises(BackendError, match="exercises are in NumPy, found the array library cupy"):
        check(exercise.name, *[print] * len(exercise.asks_for))


@pytest.mark.parametrize("part", [np.full(X.shape, "0"), np.full(X.shape, None), np.zeros(X.shape, dtype=bool)])
def test_what_is_no_number_is_no_gradient_even_where_that_is_zero(part):
    with pytest.raises(Wrong, match="d_y"):
        check_gradients(lambda d: (d, part), lambda x, y: x + 0 * y, {"x": X.copy(), "y": X.copy()})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_gradient(value):
    spoilt = np.array([0.0, value, 0.0])
    with pytest.raises(Wrong, match="d_x is not right yet"):
        check_gradients(lambda d: 2 * d + spoilt, lambda x: 2 * x, {"x": X.copy()})


@pytest.mark.filterwarnings("error")
def test_an_infinity_has_a_sign_and_small_entries_are_measured_by_the_largest():
    scores = np.array([1.0, -np.inf, np.inf])
    agree("y", scores.copy(), scores)
    agree("y", np.array([1.0, 1e-17]), np.array([1.0, 0.0]))
    for found, expected in ((np.inf, -np.inf), (np.nan, -np.inf), (1e300, -np.inf), (1e-7, 0.0)):
        with pytest.raises(Wrong, match="1 of 2 are wrong"):
            agree("y", np.array([1.0, found]), np.array([1.0, expected]))


def test_a_part_that_is_not_written_yet_comes_before_one_that_is_wrong():
    with pytest.raises(Unsolved):
        check_gradients(lambda d: (d + 7, ...), np.add, {"x": X.copy(), "y": X.copy()})
