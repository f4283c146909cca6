"""Large and tiny inputs, subgradients as a whole, and what a check could have found."""

import numpy as np
import pytest
from check_cases import verdict

from minitransformer import Operation
from minitransformer.testing import CheckError, GradientError, check, gradcheck, prove

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FAR = {
    "sin at 1e8": (np.sin, np.cos, 1e8 + RNG.normal(size=4)),
    "sin at 1e11": (np.sin, np.cos, 1e11 + RNG.normal(size=4)),
    "a Gaussian at 1e8": (
        lambda x: np.exp(-((x - 1e8) ** 2) / 2),
        lambda x: -(x - 1e8) * np.exp(-((x - 1e8) ** 2) / 2),
        1e8 + RNG.normal(size=4),
    ),
    "sigmoid of a Unix time": (
        lambda x: sigmoid(x - 1.7e9),
        lambda x: sigmoid(x - 1.7e9) * sigmoid(1.7e9 - x),
        1.7e9 + RNG.normal(size=4),
    ),
    "sin of 1e8 x": (lambda x: np.sin(1e8 * x), lambda x: 1e8 * np.cos(1e8 * x), RNG.normal(size=4)),
    "exp at 1e-9": (np.exp, np.exp, 1e-9 * RNG.normal(size=4)),
    "exp at 1e-12": (np.exp, np.exp, 1e-12 * RNG.normal(size=4)),
}


@pytest.mark.parametrize("name", FAR)
def test_steps_fit_inputs_of_every_size(name):
    function, slope, x = FAR[name]
    assert verdict(function, lambda x, d_y: slope(x) * d_y, x).verdict == "right"
    assert verdict(function, lambda x, d_y: -slope(x) * d_y, x).verdict == "wrong"


@pytest.mark.parametrize(
    ("slope", "rate", "at"), [(0, 1, 1e16), (1e6, 1e17, 1e8), (1e6, 1e8, 1e8), (1e3, 1e13, 1e4), (1, 4e15, 1)]
)
def test_what_turns_between_neighbouring_numbers_is_undecided(slope, rate, at):
    def wave(x):
        return slope * x + np.sin(rate * x)

    for seed in range(10):
        x = at * (1 + 0.1 * np.random.default_rng(seed).normal(size=2))
        report = verdict(wave, lambda x, d_y: (slope + rate * np.cos(rate * x)) * d_y, x, seed=seed)
        assert report.verdict == "undecided"
        assert "may turn between two neighbouring numbers of x" in report.cause


def bent(x):
    """Return what is 0 along each of two entries, and at 0; on every other line through 0 it has a slope."""
    return x[:1] * x[1:] ** 2 / np.maximum((x * x).sum(keepdims=True), 1e-300)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [2, 8])
def test_a_piece_that_needs_all_other_entries_on_one_side_is_found(sign, n):
    """The least of n numbers, if all are above 0: at 0 its gradient has a single 1, but no entry alone changes it."""

    def f(x, y):
        return sign * np.maximum(0, (sign * x).min(keepdims=True)) + 0.1 * bent(y)

    for claimed, expected in ((1, "kink"), (2, "wrong")):
        d_x = claimed * np.eye(n)[n // 2]
        report = verdict(f, lambda x, y, d_y, d_x=d_x: (d_y * d_x, 0 * y), np.zeros(n), np.zeros(2), kinks="accept")
        assert report.verdict == expected
        assert ("more than two" in report.cause) == (claimed == 1)


def order(x):
    """Return the rank of each entry; the first of equal ones has the lowest."""
    return np.argsort(np.argsort(x, kind="stable"), kind="stable")


TIED = {
    "sort": (np.sort, lambda x, d_y: d_y[order(x)]),
    "median": (lambda x: np.median(x, keepdims=True), lambda x, d_y: d_y * (order(x) == x.size // 2)),
    "the second largest": (lambda x: np.sort(x)[-2:-1], lambda x, d_y: d_y * (order(x) == x.size - 2)),
}


@pytest.mark.parametrize("x", [[0.7] * 3, [0.7] * 5, [3.0, 0.7, -1.0, 0.7, 0.7], [0.0] * 3], ids=str)
@pytest.mark.parametrize("name", TIED)
def test_the_gradient_of_a_piece_is_not_called_wrong_where_many_meet(name, x):
    function, backward = TIED[name]
    for seed in range(4):
        assert verdict(function, backward, x, seed=seed).verdict in ("kink", "undecided")
        for off in (2.0, -1.5):
            report = verdict(function, lambda x, d_y, off=off: off * backward(x, d_y), x, seed=seed, kinks="accept")
            assert report.verdict in ("wrong", "undecided")
    assert verdict(np.sort, lambda x, d_y: 2 * d_y[order(x)], x, kinks="accept").verdict == "wrong"
    if "sort" not in name:  # all tied entries move the value, although none does alone
        assert verdict(function, lambda x, d_y: 0 * x, x, kinks="accept").verdict == "wrong"


MEDIAN, FIRST = TIED["median"]
SAME_WORD = {
    "a piece of the median": (MEDIAN, FIRST, [0.7] * 3, "kink", "more than two"),
    "twice a piece": (MEDIAN, lambda x, d_y: 2 * FIRST(x, d_y), [0.7] * 3, "wrong", ""),
    "no gradient of the median": (MEDIAN, lambda x, d_y: 0 * x, [0.7] * 3, "wrong", "no average of the gradients near"),
    "a distance": (lambda x: np.abs(x[:1] - x[1:]), lambda x, d_y: d_y + 0 * x, [0.7, 0.7], "wrong", "at the kinks of"),
    "turns": (lambda x: np.sin(1e17 * x), lambda x, d_y: 1e17 * np.cos(1e17 * x) * d_y, [0.7], "undecided", "may turn"),
}


@pytest.mark.parametrize("name", SAME_WORD)
def test_gradcheck_and_prove_say_what_check_says(name):
    function, backward, x, expected, cause = SAME_WORD[name]
    report = verdict(function, backward, x)
    assert report.verdict == expected
    assert cause in report.cause
    assert not report.subgradient
    both = Operation(lambda x: (function(x), x), lambda x, d_y: (backward(x, d_y),), name="f")
    for compare in (gradcheck, prove):
        with pytest.raises(GradientError) as error:
            compare(both, [np.array(x)])
        assert error.value.report.verdict == expected
        assert cause in str(error.value)
        assert (error.value.report.verdict == "wrong") == (expected == "wrong")


@pytest.mark.parametrize("name", SAME_WORD)
def test_what_numpy_warns_of_inside_a_function_is_not_shown(name, recwarn):
    function, backward, x, *_ = SAME_WORD[name]

    def loud(one):
        return lambda *arrays: (np.log(np.zeros(1)), one(*arrays))[1]

    assert verdict(loud(function), loud(backward), x).verdict == verdict(function, backward, x).verdict
    assert not recwarn.list


def test_each_subgradient_of_many_kinks_is_accepted():
    for size in (3, 300):
        report = verdict(lambda x: np.maximum(x, 0), lambda x, d_y: d_y * (x > 0), np.zeros(size), kinks="accept")
        assert (report.verdict, report.subgradient) == ("kink", True)


@pytest.mark.parametrize("function", [(np.sin, np.cos), (np.exp, np.exp), (np.square, lambda x: 2 * x)])
def test_errors_as_small_as_the_power_says_are_found(function):
    value, slope = function
    x = RNG.normal(size=5)
    power = verdict(value, lambda x, d_y: slope(x) * d_y, x).power
    assert 1e-8 < power.together <= power.one < 1e-5
    for off in (1.1, -1.1):
        wrong = verdict(value, lambda x, d_y, off=off: slope(x) * d_y * (1 + off * power.together), x)
        assert wrong.verdict == "wrong"
        assert wrong.power is None


def test_a_check_that_could_not_find_an_error_is_refused_where_that_is_asked_for():
    arguments = {"backward": lambda x, d_y: 2e-9 * x * d_y, "inputs": [np.array([0.5, 2.0])]}

    def faint(x):
        return 1 + 1e-9 * x * x

    power = check(faint, **arguments).power
    assert power.one > 1e-3
    assert f"  {power}" in str(check(faint, **arguments))
    check(faint, detects=2 * power.one, **arguments)
    with pytest.raises(CheckError, match="detects=1e-06 asks for a smaller error"):
        check(faint, detects=1e-6, **arguments)
    with pytest.raises(ValueError, match="detects is 0; expected a relative error above 0"):
        check(faint, detects=0, **arguments)
    with pytest.raises(AssertionError, match="detects=1e-12 asks for a smaller error"):
        gradcheck(lambda x: x * x, [np.ones(2)], detects=1e-12)
    assert gradcheck(lambda x: x * x, [np.ones(2)], detects=1e-3).power.one < 1e-3


def test_the_input_in_which_a_function_turns_too_fast_is_named():
    turns = Operation(lambda x, y: (x + np.sin(1e17 * y), y), lambda y, d: (d, 1e17 * np.cos(1e17 * y) * d), name="f")
    with pytest.raises(GradientError, match="may turn between two neighbouring numbers of y"):
        gradcheck(turns, [np.array([0.5]), np.array([0.7])], names=["x", "y"])
