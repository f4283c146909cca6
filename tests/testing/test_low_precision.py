"""Checks in float32 and float16, and of functions that round inside: rounding makes no gradient wrong or right."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from check_cases import verdict

from minitransformer.testing import examine
from minitransformer.testing.adapters import Plain
from minitransformer.testing.case import Case
from minitransformer.testing.claim import Claim
from minitransformer.testing.low_precision import _inner_rounding, find_jump

in_float32 = partial(verdict, dtype=np.float32)


def test_a_slight_mistake_is_found_that_a_measurement_in_float32_would_not_show():
    def backward(x, d_y):
        return d_y * np.cos(x) * x.dtype.type(1 + 1e-5)

    report = in_float32(np.sin, backward, [0.5, 1.0, -0.3])
    assert report.verdict == "wrong"
    assert report.worst.found / report.worst.expected == pytest.approx(1 + 1e-5, abs=1e-7)


def test_an_error_that_rounding_explains_is_undecided():
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def backward(x, d_y):
        y = sigmoid(x)
        return y * (1 - y) * d_y

    report = in_float32(sigmoid, backward, [18.0, 20.0])  # y is 1 in float32
    assert report.verdict == "undecided"
    assert "right in float64; in float32 the gradient of x at [0] is " in report.cause
    assert in_float32(sigmoid, backward, [0.5, 20.0]).verdict == "right"  # beside a large entry, the small one may be 0

    def spread(x):
        return ((x - x.mean()) ** 2).mean(keepdims=True)

    def unstable(x, d_y):  # x² - mean² for (x - mean)²
        centred = ((x * x - x.mean() ** 2) - 2 * x.mean() * (x - x.mean())) / (x - x.mean())
        return 2 * centred * d_y / x.size

    report = in_float32(spread, unstable, [1000.1, 1000.2, 999.6])
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
    report = in_float32(function, lambda x, d_y: d_y * np.cos(x), [0.5, 1.0])
    assert report.verdict == "undecided"
    assert report.cause.endswith(cause)


def test_a_function_that_refuses_float64_is_measured_in_its_own_type():
    def sine(x):
        if x.dtype != np.float32:
            raise TypeError("give float32")
        return np.sin(x)

    report = in_float32(lambda x: sine(x) + np.float32(1e7), lambda x, d_y: d_y * np.cos(x), [0.5, 1.0])
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
    report = in_float32(lambda x: np.sin(x + offset), lambda x, d_y: d_y * np.cos(x + offset), x)
    assert report.verdict == "right"
    report = in_float32(lambda x: np.sin(x + offset), lambda x, d_y: d_y * np.float32(1.1) * np.cos(x + offset), x)
    assert report.verdict == "wrong"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_staircase_is_not_the_rounding_of_a_type(dtype):
    x = np.random.default_rng(0).normal(size=(3, 4))
    assert in_float32(lambda x: np.round(4 * x) / 4, lambda x, d_y: d_y, x, dtype=dtype).verdict == "wrong"
    assert in_float32(lambda x: np.round(4 * x) / 4, lambda x, d_y: 0 * d_y, x, dtype=dtype).verdict == "right"


def test_rounding_inside_a_function_is_spread_over_inputs_of_a_typical_size():
    def claim(output, **more):
        case = SimpleNamespace(inputs=[np.float32([1, 2, 3, 100, -0.5])])
        return SimpleNamespace(case=case, output=SimpleNamespace(vector=np.array(output)), **more)

    short = claim([3.0, 5.0], d_output=np.array([2.0, -4.0]), eps=0.125)
    found = _inner_rounding(short, claim([2.5, 3.0]), 0)  # 4 times the error of 2; eps times the value is 0.625
    np.testing.assert_array_equal(found, 8 / np.array([2, 2, 3, 100, 2]))
    np.testing.assert_array_equal(_inner_rounding(short, claim([3.0, 5.0]), 0), 2.5 / np.array([2, 2, 3, 100, 2]))


def test_a_constant_that_hides_the_slope_in_float32_makes_no_gradient_wrong():
    def bell(x):
        u = 1 / np.sqrt(x * x + np.float32(1e-3))
        return u - u.mean(axis=-1, keepdims=True)

    def backward(x, d_y):
        return (d_y - d_y.mean(axis=-1, keepdims=True)) * -x * (x * x + np.float32(1e-3)) ** np.float32(-1.5)

    for seed in range(6):
        x = 1e-4 * np.random.default_rng(seed).normal(size=(2, 4))
        assert verdict(bell, backward, x, dtype=np.float32, seed=seed).verdict == "right"
        kept = verdict(lambda x: bell(x.astype(np.float32)), backward, x, dtype=np.float32, seed=seed)
        assert kept.verdict in ("right", "undecided")


def test_a_function_that_oscillates_within_a_step_makes_no_gradient_wrong():
    x = np.array([183.2, -97.5, 20.0])
    for phase in range(6):

        def wave(x, phase=phase):
            return np.sin(x * x + x.dtype.type(phase))

        def backward(x, d_y, phase=phase):
            return 2 * x * np.cos(x * x + x.dtype.type(phase)) * d_y

        assert verdict(wave, backward, x, dtype=np.float32).verdict == "right"
        kept = verdict(lambda x, wave=wave: wave(x.astype(np.float32)), backward, x, dtype=np.float32)
        assert kept.verdict in ("right", "undecided"), kept


# --- functions in float64 that round inside


def jump_of(function, x, backward, seed):
    case = Case("check", function, [np.asarray(x, np.float64)], {}, None, Plain(backward))
    return find_jump(Claim(case, np.random.default_rng(seed)))


def tanh_backward(x, d_y):
    return d_y * (1 - np.tanh(x) ** 2)


def to_bfloat16(x):
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(256 * fraction) / 256, exponent)


def to(short):
    return to_bfloat16 if short == "bfloat16" else lambda x: x.astype(short).astype(np.float64)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("short", [np.float32, np.float16, "bfloat16"])
def test_rounding_inside_is_seen_wherever_it_jumps(short, n):
    def rounded(x):
        return x / 100 + to(short)(np.tanh(x))

    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=n)
        report = verdict(rounded, lambda x, d_y: d_y / 100 + tanh_backward(x, d_y), x, seed=seed)
        assert report.verdict in ("right", "undecided"), report
        assert report.verdict == "right" or short != np.float32


@pytest.mark.parametrize("steepness", [1e5, 1e6, 3e6, 1e7, 1e8, 1e10])
@pytest.mark.parametrize("x", [0.0, 0.3])
def test_a_steep_part_is_not_taken_for_rounding(steepness, x):
    def steep(t):
        return t + np.tanh(steepness * (t - x)) / steepness

    assert verdict(steep, lambda x, d_y: 2 * d_y, [x, x]).verdict in ("right", "undecided")
    for seed in range(6):
        assert not jump_of(steep, [x], lambda x, d_y: 2 * d_y, seed)
    if steepness == 1e7:
        assert verdict(steep, lambda x, d_y: 2 * d_y, [x, x]).verdict == "right"
        assert verdict(steep, lambda x, d_y: 3 * d_y, [x, x]).verdict == "wrong"


@pytest.mark.parametrize(("short", "expected"), [(np.float32, "right"), (np.float16, "undecided")])
def test_a_jump_of_rounding_at_the_inputs_is_no_kink(short, expected):
    tie = 1 + float(np.finfo(short).eps) / 2
    assert verdict(to(short), lambda x, d_y: d_y, [tie]).verdict == expected
