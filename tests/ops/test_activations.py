"""The operations silu, gelu and gelu_tanh: values by Python's own functions, limits, large inputs, and models."""

import math

import numpy as np
import pytest
from passes import gelu, gelu_tanh, silu

import minitransformer as mt

X = np.concatenate([np.linspace(-9, 9, 181), [1e-8, -1e-8, 1e-300, 37.5, -37.5]])


def silu_of(x, beta):
    return x / (1 + math.exp(-beta * x))


def gelu_of(x):
    return x * math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize("beta", [0.5, 1, 1.702])
def test_silu_against_a_loop(beta):
    y, saved = silu.forward(X, beta)
    for value in (y, silu.reference(mt.Tensor(X), beta).numpy()):
        np.testing.assert_allclose(value, [silu_of(x, beta) for x in X.tolist()], rtol=1e-14)
    (slope,) = silu.backward(saved, np.ones_like(X))
    sigmoid = np.array([1 / (1 + math.exp(-beta * x)) for x in X.tolist()])
    np.testing.assert_allclose(slope, sigmoid + beta * X * sigmoid * (1 - sigmoid), rtol=1e-12, atol=1e-15)


def test_gelu_against_a_loop():
    y, saved = gelu.forward(X)
    for value in (y, gelu.reference(mt.Tensor(X)).numpy()):
        np.testing.assert_allclose(value, [gelu_of(x) for x in X.tolist()], rtol=1e-14, atol=1e-13)
    (slope,) = gelu.backward(saved, np.ones_like(X))
    density = np.exp(-X * X / 2) / math.sqrt(2 * math.pi)
    expected = [math.erfc(-x / math.sqrt(2)) / 2 for x in X.tolist()] + X * density
    np.testing.assert_allclose(slope, expected, rtol=1e-13, atol=1e-15)


def test_gelu_tanh_against_a_loop():
    y, saved = gelu_tanh.forward(X)
    tanh = np.array([math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)) for x in X.tolist()])
    for value in (y, gelu_tanh.reference(mt.Tensor(X)).numpy()):
        np.testing.assert_allclose(value, X * (1 + tanh) / 2, rtol=1e-14, atol=1e-13)
    (slope,) = gelu_tanh.backward(saved, np.ones_like(X))
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * X**2)
    np.testing.assert_allclose(slope, (1 + tanh) / 2 + X * (1 - tanh**2) * inner / 2, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", ["forward", "reference"])
def test_far_away_all_are_relu(form):
    for operation in (silu, gelu, gelu_tanh):
        x = np.array([-1e4, -800.0, 800.0, 1e4])
        y = operation.forward(x)[0] if form == "forward" else operation.reference(mt.Tensor(x)).numpy()
        np.testing.assert_array_equal(y, [0, 0, 800, 1e4])


def test_gelu_tanh_overflows_nowhere():
    largest = np.finfo(np.float32).max
    x = np.array([-largest, largest], dtype=np.float32)
    y, saved = gelu_tanh.forward(x)
    np.testing.assert_array_equal(y, [0, largest])
    np.testing.assert_array_equal(gelu_tanh.backward(saved, np.ones_like(x))[0], [0, 1])


def test_silu_and_tanh_approximate_gelu():
    x = np.linspace(-8, 8, 3201)
    difference = np.abs(silu.forward(x, 1.702)[0] - gelu.forward(x)[0])
    assert 0.02 < difference.max() < 0.021
    difference = np.abs(gelu_tanh.forward(x)[0] - gelu.forward(x)[0])
    assert 0.00047 < difference.max() < 0.0005


def test_a_float64_beta_widens_nothing():
    x = np.ones(3, dtype=np.float32)
    y, saved = silu.forward(x, np.float64(1.702))
    assert y.dtype == silu.backward(saved, x)[0].dtype == np.float32
