"""Functions in float64 that round inside."""

import numpy as np
import pytest
from check_cases import verdict

from minitransformer.testing.adapters import Plain
from minitransformer.testing.claim import Claim
from minitransformer.testing.jumps import find_jump
from minitransformer.testing.real_case import RealCase


def jump_of(function, x, backward, seed):
    case = RealCase("check", function, [np.asarray(x, np.float64)], {}, None, Plain(backward))
    return find_jump(Claim(case, np.random.default_rng(seed)))


def tanh_backward(x, d_y):
    return d_y * (1 - np.tanh(x) ** 2)


def to_bfloat16(x):
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(256 * fraction) / 256, exponent)


def to(short):
    return to_bfloat16 if short == "bfloat16" else lambda x: x.astype(short).astype(np.float64)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (np.tanh, 0, 0),
        (lambda x: 1e3 + np.tanh(x), 0, 0),
        (lambda x: np.exp(10 * x), 0, 0),
        (lambda x: np.sin(1e4 * x), 0, 0),
        (lambda x: np.abs(x - 0.7), 0, 0),
        (lambda x: np.tanh(x).astype(np.float32).astype(np.float64), 2.0**-27, 2.0**-23),
        (lambda x: -np.tanh(x).astype(np.float32).astype(np.float64), 2.0**-27, 2.0**-23),
        (lambda x: np.tanh(x).astype(np.float16).astype(np.float64), 2.0**-14, 2.0**-10),
        (lambda x: np.floor(x) + 0 * x, 0, 0),
        (lambda x: np.floor(4 * x), 0, 0),
    ],
)
@pytest.mark.parametrize("x", [[0.7], np.linspace(0.5, 0.9, 6)])
def test_how_far_a_function_jumps(function, low, high, x):
    for seed in range(4):
        assert low <= jump_of(function, x, tanh_backward, seed) <= high


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
