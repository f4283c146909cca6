"""What ends an examination before a gradient is compared: chance, writing, numbers that are not finite, wrong types."""

import numpy as np
import pytest
from check_cases import verdict

from minitransformer.testing import examine


def test_an_input_that_is_a_generator_starts_anew_in_each_call():
    report = examine(
        lambda x, rng: x * (rng.random(x.shape) < 0.5),
        backward=lambda x, rng, d_y: (d_y * (rng.random(x.shape) < 0.5), None),
        inputs=[np.ones(9), np.random.default_rng(1)],
    )
    assert report.verdict == "right"


class Layer:
    def __init__(self):
        self.mean = np.zeros(2)

    def forward(self, x):
        self.mean[:] = 0.9 * self.mean + 0.1 * x  # does not change the value
        self.x = x
        return x * x

    def backward(self, x, d_y):
        return 2 * self.x * d_y


def test_state_that_does_not_matter_is_no_fault():
    layer = Layer()
    assert verdict(layer.forward, layer.backward, [1.0, 2.0]).verdict == "right"


def test_where_a_number_first_is_not_finite():
    def log(x):
        shifted = x - 1
        return np.log(shifted) * 2

    report = verdict(log, lambda x, d_y: d_y, [2, 0.5, 3])
    assert report.verdict == "not finite"
    assert "return np.log(shifted) * 2 (invalid value" in report.cause


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_a_line_that_is_not_finite_is_one_of_the_caller_not_of_numpy():
    report = examine(lambda x: x.mean(axis=0), backward=lambda x, d_y: 0 * x, inputs=[np.zeros((0, 2))])
    assert f"{__file__}, in <lambda>: report = examine(lambda x: x.mean(" in report.cause
