"""The operation layer_norm: values by loops, invariants, extremes, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import layer_norm

import minitransformer as mt
from minitransformer.arrays import to_numpy
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(6)


def slow_row(x, gain, bias, eps):
    n = len(x)
    mean = sum(x) / n
    variance = sum((a - mean) ** 2 for a in x) / n
    return [g * (a - mean) / math.sqrt(variance + eps) + b for a, g, b in zip(x, gain, bias, strict=True)]


def slow_d_x(x, gain, d, eps):
    """Compute d_x_j = Σ_i d_i g_i ∂x̂_i/∂x_j with the derivative of each x̂_i written out."""
    n = len(x)
    mean = sum(x) / n
    s = math.sqrt(sum((a - mean) ** 2 for a in x) / n + eps)
    return [
        sum(d[i] * gain[i] * (((i == j) - 1 / n) / s - (x[i] - mean) * (x[j] - mean) / (n * s**3)) for i in range(n))
        for j in range(n)
    ]


def test_layer_norm_against_loops():
    x, gain, bias, d = RNG.normal(size=(3, 5)), RNG.normal(size=5), RNG.normal(size=5), RNG.normal(size=(3, 5))
    y, saved = layer_norm.forward(x, gain, bias, eps=1e-3)
    np.testing.assert_allclose(y, [slow_row(row, gain, bias, 1e-3) for row in x], rtol=0, atol=1e-14)
    d_x, d_gain, d_bias = layer_norm.backward(saved, d)
    np.testing.assert_allclose(d_x, [slow_d_x(r, gain, e, 1e-3) for r, e in zip(x, d, strict=True)], rtol=0, atol=1e-14)
    x_hat = np.array([slow_row(row, np.ones(5), np.zeros(5), 1e-3) for row in x])
    np.testing.assert_allclose(d_gain, [sum(d[r][i] * x_hat[r][i] for r in range(3)) for i in range(5)], atol=1e-14)
    np.testing.assert_allclose(d_bias, [sum(d[r][i] for r in range(3)) for i in range(5)], atol=1e-14)


def test_a_row_worked_out_by_hand():
    # Mean 2, variance 1, and eps 3 makes the root 2.
    y, _ = layer_norm.forward(np.array([1.0, 3.0]), np.array([10.0, 20.0]), np.array([1.0, -1.0]), eps=3.0)
    np.testing.assert_array_equal(y, [-4, 9])


@given(strategies.layer_norm(), st.data())
def test_the_gradient_is_orthogonal_to_ones_and_to_x_hat(example, data):
    x, gain, bias = example.inputs
    eps = 1e-300  # without it, orthogonality to x_hat is exact
    x = x + np.arange(x.shape[-1])  # no row of equal features, unless it has only one
    if x.shape[-1] == 1:
        eps = 1.0
    y, saved = layer_norm.forward(x, gain, bias, eps=eps)
    d_x = layer_norm.backward(saved, data.draw(strategies.cotangents(y.shape)))[0]
    x_hat, r = (to_numpy(part) for part in saved[:2])
    scale = x.shape[-1] * float(np.max(r, initial=1.0)) * 4  # the size of the numbers that cancel
    np.testing.assert_allclose(d_x.sum(axis=-1), 0, rtol=0, atol=2e-15 * scale)
    np.testing.assert_allclose((d_x * x_hat).sum(axis=-1), 0, rtol=0, atol=8e-15 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_and_equal_features_are_stable(dtype):
    x = np.array([[1e4, -1e4, 1e4, -1e4], [1e4, 1e4, 1e4, 1e4], [0, 0, 0, 0]], dtype=dtype)
    y, saved = layer_norm.forward(x, np.full(4, 2, dtype), np.full(4, 0.5, dtype))
    np.testing.assert_allclose(y, [[2.5, -1.5, 2.5, -1.5], [0.5] * 4, [0.5] * 4], rtol=1e-6)
    gradients = layer_norm.backward(saved, np.arange(12, dtype=dtype).reshape(3, 4))
    assert all(np.isfinite(g).all() and g.dtype == dtype for g in (y, *gradients))


def passes(x, gain, bias):
    """Return the outputs of the hand-written and of the reference implementation."""
    tensors = [mt.Tensor(value) for value in (x, gain, bias)]
    return layer_norm.forward(x, gain, bias)[0], layer_norm.reference(*tensors).numpy()


@pytest.mark.parametrize("n_features", [3, 512, 4096])
def test_equal_features_far_from_zero_give_the_bias(n_features):
    """The sums of most such rows are rounded, unlike those of a few round numbers, and with them the means."""
    x = np.repeat(RNG.normal(12345, 10, (40, 1)).astype("float32"), n_features, axis=1)
    assert (np.einsum("...i->...", x) / np.float32(n_features) != x[:, 0]).any(), "these rows test nothing"
    for y in passes(x, np.full(n_features, 2, "float32"), np.full(n_features, 0.5, "float32")):
        np.testing.assert_array_equal(y, 0.5)


def test_features_far_from_zero_keep_their_digits():
    x = RNG.normal(1e4, 1, (20, 512)).astype("float32")
    gain, bias = np.ones(512, "float32"), np.zeros(512, "float32")
    exact, _ = layer_norm.forward(*(value.astype("float64") for value in (x, gain, bias)))
    for y in passes(x, gain, bias):
        np.testing.assert_allclose(y, exact, rtol=0, atol=2e-6)


def test_a_single_feature_is_always_its_mean():
    y, saved = layer_norm.forward(np.array([[3.0], [-8.0]]), np.array([5.0]), np.array([0.25]))
    np.testing.assert_array_equal(y, 0.25)
    d_x, d_gain, d_bias = layer_norm.backward(saved, np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(d_x, 0)
    assert d_gain == 0
    assert d_bias == 3


def test_an_eps_of_zero_is_the_formula_without_it():
    y, _ = layer_norm.forward(np.array([1.0, 3.0]), np.array([10.0, 20.0]), np.array([1.0, -1.0]), eps=0.0)
    np.testing.assert_array_equal(y, [-9, 19])
