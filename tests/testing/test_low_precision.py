"""Checks in float32 and float16: the formula is measured in float64, and its rounding compared."""

from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.testing import examine
from minitransformer.testing.low_precision import _inner_rounding


def verdict(function, backward, x, dtype=np.float32):
    return examine(function, backward=backward, inputs=[np.asarray(x, dtype)])


def test_a_slight_mistake_is_found_that_a_measurement_in_float32_would_not_show():
    def backward(x, d_y):
        return d_y * np.cos(x) * x.dtype.type(1 + 1e-5)

    report = verdict(np.sin, backward, [0.5, 1.0, -0.3])
    assert report.verdict == "wrong"
    assert report.worst.found / report.worst.expected == pytest.approx(1 + 1e-5, abs=1e-7)


def test_an_error_that_rounding_explains_is_undecided():
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def backward(x, d_y):
        y = sigmoid(x)
        return y * (1 - y) * d_y

    report = verdict(sigmoid, backward, [18.0, 20.0])  # y is 1 in float32
    assert report.verdict == "undecided"
    assert "right in float64; in float32 the gradient of x at [0] is " in report.cause
    assert verdict(sigmoid, backward, [0.5, 20.0]).verdict == "right"  # beside a large entry, the small one may be 0

    def spread(x):
        return ((x - x.mean()) ** 2).mean(keepdims=True)

    def unstable(x, d_y):  # x² - mean² for (x - mean)²
        centred = ((x * x - x.mean() ** 2) - 2 * x.mean() * (x - x.mean())) / (x - x.mean())
        return 2 * centred * d_y / x.size

    report = verdict(spread, unstable, [1000.1, 1000.2, 999.6])
    assert report.verdict == "undecided"
    assert "is -0.198056 instead of 0.129361, and rounding explains an error of 3.5e-01" in report.cause


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda x: np.sin(x.astype(np.float32)) + np.float32(1e7), "computes in float32 whatever its inputs are"),
        (lambda x: np.sin(x) + np.float32(1e7) * (x.dtype == np.float32), "computes something else in float64"),
    ],
)
def test_a_function_without_a_form_in_float64_is_measured_in_its_own_type(function, cause):
    report = verdict(function, lambda x, d_y: d_y * np.cos(x), [0.5, 1.0])
    assert report.verdict == "undecided"
    assert report.cause.endswith(cause)


def test_a_function_that_refuses_float64_is_measured_in_its_own_type():
    def sine(x):
        if x.dtype != np.float32:
            raise TypeError("give float32")
        return np.sin(x)

    report = verdict(lambda x: sine(x) + np.float32(1e7), lambda x, d_y: d_y * np.cos(x), [0.5, 1.0])
    assert "TypeError: give float32" in report.cause


def test_a_value_that_stands_still_along_a_line_is_not_rounded():
    for seed in range(4):
        report = examine(
            np.arctan2,
            backward=lambda y, x, d: (d * x / (x * x + y * y), -d * y / (x * x + y * y)),
            inputs=[np.array([1e-3]), np.array([-1.0])],
            seed=seed,
        )
        assert report.verdict == "right"


def test_the_rounding_of_a_large_number_inside_explains_an_error():
    x = np.random.default_rng(0).normal(size=(3, 4))
    offset = np.float32(1e4)
    report = verdict(lambda x: np.sin(x + offset), lambda x, d_y: d_y * np.cos(x + offset), x)
    assert report.verdict == "right"
    report = verdict(lambda x: np.sin(x + offset), lambda x, d_y: d_y * np.float32(1.1) * np.cos(x + offset), x)
    assert report.verdict == "wrong"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_staircase_is_not_the_rounding_of_a_type(dtype):
    x = np.random.default_rng(0).normal(size=(3, 4))
    assert verdict(lambda x: np.round(4 * x) / 4, lambda x, d_y: d_y, x, dtype).verdict == "wrong"
    assert verdict(lambda x: np.round(4 * x) / 4, lambda x, d_y: 0 * d_y, x, dtype).verdict == "right"


def test_rounding_inside_a_function_is_spread_over_inputs_of_a_typical_size():
    def claim(output, **more):
        case = SimpleNamespace(inputs=[np.float32([1, 2, 3, 100, -0.5])])
        return SimpleNamespace(case=case, output=SimpleNamespace(vector=np.array(output)), **more)

    short = claim([3.0, 5.0], d_output=np.array([2.0, -4.0]), eps=0.125)
    found = _inner_rounding(short, claim([2.5, 3.0]), 0)  # 4 times the error of 2; eps times the value is 0.625
    np.testing.assert_array_equal(found, 8 / np.array([2, 2, 3, 100, 2]))
    np.testing.assert_array_equal(_inner_rounding(short, claim([3.0, 5.0]), 0), 2.5 / np.array([2, 2, 3, 100, 2]))
