"""The tester, tested: right gradients pass, and every kind of wrong one is caught."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitransformer as mt
from minitransformer import Operation, Tensor
from minitransformer.arrays import asarray
from minitransformer.testing import GradientError, examine, strategies
from minitransformer.testing.gradcheck import gradcheck

RNG = np.random.default_rng(1)


def operation(forward, backward, name="test"):
    """Make an operation of one input from its value and its gradient."""
    return Operation(lambda x: (forward(x), x), lambda x, d: (backward(x, d),), name=name)


def normal(*shape):
    return RNG.standard_normal(shape)


RIGHT = {
    "square": (lambda x: x * x, normal(3, 4)),
    "sum over an axis": (lambda x: x.sum(axis=0), normal(3, 4)),
    "a number": (lambda x: x.mean(), normal(5)),
    "used often": (lambda x: x * x.exp() + x / (x * x + 1), normal(2, 3)),
    "softmax": (mt.ops.softmax, normal(2, 5)),
    "a thousand entries": (lambda x: (x @ x.swapaxes(0, 1)).tanh(), normal(40, 25) / 5),
    "tiny": (lambda x: 1e-7 * x.tanh(), normal(4)),
    "huge": (lambda x: 1e12 * x * x, normal(4)),
    "a small change of a large number": (lambda x: (x + 1e5).log(), normal(6)),
    "an exponential far below 1": (lambda x: (x - 200.0).exp(), normal(6)),
    "no entries": (lambda x: x * x, np.zeros((0, 3))),
    "a single number": (lambda x: x * x, np.array(1.5)),
    "at zero": (lambda x: x * x.exp(), np.zeros(3)),
    "entries of very different size": (lambda x: x * x, np.array([1e-9, 1.0, 1e9])),
    "constant": (lambda x: 0 * x + 3.0, normal(3)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name):
    function, x = RIGHT[name]
    report = gradcheck(function, (x,))
    assert report.passed
    assert report.worst_error <= 1e-7
    assert report.inputs[0].comparisons >= min(x.size, 256)


def one_wrong_entry(x, d):
    gradient = 2 * x * d
    gradient[12, 34] *= 1.01  # entry 1234 of 40 x 100
    return gradient


def unknown_at(*places):
    """Return a backward pass of exp that is right, but gives NaN at these places."""
    return lambda x, d: np.where(asarray(np.isin(np.arange(x.size), places)), np.nan, np.exp(x) * d)


WRONG = {
    "zero": (lambda x: x * x, lambda x, d: 0 * x, normal(3, 4), r"backward +-?0\n"),
    "slightly too large": (lambda x: x * x, lambda x, d: 2 * x * d * (1 + 3e-7), normal(3, 4), "relative error"),
    "a missing sum": (
        lambda x: x - x.mean(axis=1, keepdims=True),
        lambda x, d: d,
        normal(3, 4),
        "axis 1 is off by the same amount",
    ),
    "one wrong entry of 4000": (lambda x: x * x, one_wrong_entry, normal(40, 100), "8 directions. wrong"),
    "very tiny": (lambda x: 1e-30 * np.sin(x), lambda x, d: 1e-30 * d, normal(3), "relative error"),
    "a small change of a large number": (lambda x: np.log(x + 1e5), lambda x, d: 0 * x, normal(3), r"backward +-?0\n"),
    "the same, ten percent off": (lambda x: np.log(x + 1e5), lambda x, d: 1.1 * d / (x + 1e5), normal(3), "1.1 times"),
    "not a number": (lambda x: x * x, lambda x, d: 2 * x * d * np.nan, normal(3), "not finite"),
    "not a number at a masked score": (
        np.exp,
        unknown_at(0),
        np.array([-np.inf, 0.3, 2.0]),
        r"the gradient of x is nan at \[0\]",
    ),
    "not a number at two": (
        np.exp,
        unknown_at(1, 3),
        np.array([0.7, -np.inf, 0.3, -np.inf]),
        r"the gradient of x is nan at \[1\]",
    ),
    "one entry beside larger ones": (
        lambda x: x * asarray([1e6, 1.0]),
        lambda x, d: d * asarray([1e6, 1.001]),
        normal(2),
        r"worst at \[1\]",
    ),
    "where there is none": (lambda x: 0 * x + 3, lambda x, d: 1e-6 * d, normal(3), "relative error"),
    "a jump": (lambda x: np.floor(x), lambda x, d: 0 * x, np.array([2.0, 0.5]), "inf"),
}


@pytest.mark.filterwarnings("error")  # an infinite gradient costs the other entries nothing
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_caught(name):
    forward, backward, x, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        gradcheck(operation(forward, backward), (x,))


@given(st.data())
def test_one_wrong_entry_anywhere_is_caught(data):
    x = data.draw(strategies.arrays(data.draw(strategies.sizes(2, min=1))))
    place = data.draw(st.integers(0, x.size - 1))
    off = data.draw(st.sampled_from((1e-5, -1.0, 1e3)))

    def backward(x, d):
        gradient = np.cos(x) * d
        gradient[np.unravel_index(place, x.shape)] += off
        return gradient

    with pytest.raises(AssertionError) as caught:
        gradcheck(operation(np.sin, backward), (x,))
    assert f"at {[int(i) for i in np.unravel_index(place, x.shape)]}" in str(caught.value)


# Kinks


def test_kinks_are_reported_and_their_subgradients_pass():
    report = gradcheck(lambda x: x.relu(), (np.array([[0.0, 1.0, -1.0], [2.0, 0.0, 3.0]]),))
    assert report.inputs[0].kinks == [(0, 0), (1, 1)]
    assert "kinks at [0, 0], [1, 1]" in str(report)


# What cannot be checked


def changing(values):
    """Return a function that multiplies by another number each time it is called."""
    left = iter(values)
    return lambda x: x * next(left)


@pytest.mark.parametrize(
    "function",
    [
        changing([2.0, 3.0, 2.0]),
        changing([2.0, 2.0, 3.0]),
        changing([2.0, 2.0 + 1e-8, 2.0]),
        lambda x: x * (2.0 if x.requires_grad else 3.0),
    ],
)
def test_a_second_value_must_be_the_first_one(function):
    with pytest.raises(ValueError, match=r"two calls .* in one call and "):
        gradcheck(function, (normal(5),))


def test_float32_lists_and_tensors_are_checked_in_float64():
    for x in (np.float32([0.1, 0.2]), [0.1, 0.2], Tensor([0.1, 0.2])):
        assert gradcheck(lambda x: x.exp(), (x,)).passed


def test_several_outputs_are_checked_together():
    x = normal(4)
    assert gradcheck(lambda x: (x * x, {"y": x.exp()}), (x,)).passed
    wrong = operation(np.sin, lambda x, d: d)
    with pytest.raises(GradientError, match=r"what comes from the output y\[1\] is wrong"):
        gradcheck(lambda x: (x * x, wrong(x)), (x,))


def test_options_reach_the_function():
    gradcheck(mt.ops.softmax, (normal(3, 4),), axis=0)
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        gradcheck(mt.ops.softmax, (normal(3, 4),), axis=2)


def test_the_inputs_are_left_alone():
    x = normal(3, 4)
    before = x.copy()
    x.flags.writeable = False
    gradcheck(lambda x: x * x, (x,))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("logit", [12.0, 15.0, 20.0, 25.0, 30.0, 35.0, 50.0])
def test_what_rounding_hides_inside_a_function_is_no_mistake(logit):
    """log(1 + e) moves in steps of 2e-16 where it is 1e-9 itself."""
    gradcheck(mt.ops.cross_entropy, (np.array([[logit, 0.3, 0.1]]), np.array([0])))


@pytest.mark.parametrize("slope", [1e-6, 1e-8, 1e-10, 1e-12, 1e-14])
def test_a_small_slope_beside_a_large_number_is_no_jump(slope):
    gradcheck(lambda x: (x * slope + 1.0) - 1.0, (np.array([0.3, 0.7, -0.2]),))


@pytest.mark.parametrize(
    ("forward", "slope", "points"),
    [
        (lambda x: np.log(1 + np.exp(-x)), lambda x: -1.001 / (1 + np.exp(x)), [15.0, 3.0]),
        (lambda x: (x * 1e-8 + 1.0) - 1.0, lambda x: 1.01e-8, [0.3]),
        (lambda x: x * 0, lambda x: 1e-9, [0.3, 0.7]),
        (np.floor, lambda x: 1.0, [0.3, 0.7]),
        (np.floor, lambda x: 1.0, [0.0, 1.0]),
        (lambda x: x * 1e-20, lambda x: 1.001e-20, [0.3]),
    ],
)
def test_rounding_is_no_excuse_for_a_wrong_gradient(forward, slope, points):
    wrong = mt.Operation(lambda x: (forward(x), x), lambda x, d: (d * slope(x),), name="wrong")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GradientError, match="relative error"):
            gradcheck(wrong, (np.array(points),))


def test_a_first_step_out_of_the_domain_does_no_harm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradcheck(mt.log, (np.array([1e-5, 1.0, 2.0]),))


def cancelling(x, s, large):
    return (s * x + large) - large


@pytest.mark.parametrize("roundings", [2.0**n for n in (10, 16, 17, 20, 22, 23.5)])
def test_terms_that_cancel_inside_a_function_leave_no_kinks(roundings):
    rng = np.random.default_rng(3)
    for _ in range(12):  # the value is a multiple of about ``roundings`` of its own roundings
        s = 10 ** rng.uniform(-6, 2)
        report = examine(
            cancelling, inputs=(rng.normal(size=3), s, s * roundings), backward=lambda x, s, _, d: (s * d, None, None)
        )
        assert report.verdict == "right"


@pytest.mark.parametrize("size", [2.0**-22, 2.0**-26, 2.0**-27])
def test_steps_larger_than_rounding_are_no_slope(size):
    stairs = operation(lambda x: np.floor(1e-3 * x / size) * size, lambda x, d: 1e-3 * d)
    with pytest.raises(GradientError, match="relative error"):
        gradcheck(stairs, (np.array([0.3]),), d_output=np.ones(1))


def _double(saved, d_y):
    d_y *= 2
    return (d_y,)


@pytest.mark.parametrize(
    "function",
    [lambda double, x: double(x), lambda double, x: mt.tanh(double(x)), lambda double, x: x + double(x)],
    ids=["last", "inside", "shared"],
)
def test_a_backward_pass_that_writes_into_the_gradient_of_its_output(function):
    double = mt.Operation(lambda x: (2 * x, None), _double, name="double")
    with pytest.raises(AssertionError, match="pass of double"):
        gradcheck(lambda x: function(double, x), [np.array([0.5, -1.0])])
    report = examine(lambda x: function(double, x), inputs=[np.array([0.5, -1.0])])
    assert report.verdict == "mutates"
    assert "double" in report.cause
