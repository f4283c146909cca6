"""What ends an examination before a gradient is compared: chance, writing, numbers that are not finite, wrong types."""

import numpy as np
import pytest
from check_cases import each_type, verdict

from minitransformer.testing import examine


@each_type
def test_randomness_inside_a_function(dtype):
    rng = np.random.default_rng(0)
    report = verdict(lambda x: x * rng.random(x.shape).astype(dtype), lambda x, d_y: d_y, [1, 2], dtype=dtype)
    assert report.verdict == "nondeterministic"
    assert "seed the randomness" in report.cause
    generator = np.random.default_rng(1)
    given = examine(
        lambda x, rng: x * (rng.random(x.shape) < 0.5),
        backward=lambda x, rng, d_y: (d_y * (rng.random(x.shape) < 0.5), None),
        inputs=[np.ones(9, dtype), generator],
    )
    assert given.verdict == "right"


def test_a_captured_array_that_changes_is_named():
    calls = np.zeros(1)

    def scaled(x):
        calls[0] += 1
        return x * calls

    report = verdict(scaled, lambda x, d_y: d_y * calls, [1.0, 2.0])
    assert report.verdict == "nondeterministic"
    assert "each call changes calls, which the function captures" in report.cause


class Layer:
    def __init__(self):
        self.mean, self.total = np.zeros(2), np.zeros(2)

    def forward(self, x):
        self.mean[:] = 0.9 * self.mean + 0.1 * x  # does not change the value
        self.x = x
        return x * x

    def backward(self, x, d_y):
        return 2 * self.x * d_y

    def drifting(self, x):
        self.mean += x
        return x * self.mean

    def adding(self, x, d_y):
        self.total += 2 * x * d_y
        return self.total.copy()


def test_state_that_does_not_matter_is_no_fault_and_state_that_does_is():
    layer = Layer()
    assert verdict(layer.forward, layer.backward, [1.0, 2.0]).verdict == "right"
    report = verdict(layer.forward, layer.adding, [1.0, 2.0])
    assert report.verdict == "nondeterministic"
    assert "differs in two calls of the backward pass" in report.cause
    assert "each call changes self.mean" in verdict(layer.drifting, layer.backward, [1.0, 2.0]).cause


def test_an_input_of_whole_numbers_is_watched_too():
    def take(x, ids):
        ids[0] = 1
        return x[ids]

    report = examine(take, backward=lambda x, ids, d_y: (d_y, None), inputs=[np.ones(3), np.array([0, 2])])
    assert report.verdict == "mutates"
    assert "input ids" in report.cause


@each_type
def test_where_a_number_first_is_not_finite(dtype):
    def log(x):
        shifted = x - 1
        return np.log(shifted) * 2

    report = verdict(log, lambda x, d_y: d_y, [2, 0.5, 3], dtype=dtype)
    assert report.verdict == "not finite"
    assert report.cause.startswith("the value is nan at [1]; first in line ")
    assert "return np.log(shifted) * 2 (invalid value" in report.cause
    report = verdict(np.sqrt, lambda x, d_y: d_y / (2 * np.sqrt(x)), [1, 0], dtype=dtype)
    assert report.verdict == "not finite"
    assert "inf at [1]; first in line" in report.cause
    assert "divide by zero" in report.cause


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_a_line_that_is_not_finite_is_one_of_the_caller_not_of_numpy():
    report = examine(lambda x: x.mean(axis=0), backward=lambda x, d_y: 0 * x, inputs=[np.zeros((0, 2))])
    assert f"{__file__}, in <lambda>: report = examine(lambda x: x.mean(" in report.cause
