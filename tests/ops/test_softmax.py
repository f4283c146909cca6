"""The operations softmax and log_softmax: values by hand, invariants, extremes, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from passes import log_softmax, softmax

from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(3)
INF = np.inf


def slow_softmax(row):
    """Compute one row from the definition."""
    total = sum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def slow_gradient(row, d):
    """Sum over i of d_i times the derivative of y_i with respect to x_j, for each j."""
    y, n = slow_softmax(row), len(row)
    return [sum(d[i] * y[i] * ((i == j) - y[j]) for i in range(n)) for j in range(n)]


def test_softmax_against_loops():
    x, d = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 5))
    y, saved = softmax.forward(x)
    np.testing.assert_allclose(y, [slow_softmax(row) for row in x], rtol=1e-14)
    (d_x,) = softmax.backward(saved, d)
    np.testing.assert_allclose(d_x, [slow_gradient(*rows) for rows in zip(x, d, strict=True)], rtol=0, atol=1e-15)


def test_log_softmax_against_loops():
    x, d = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 5))
    y, saved = log_softmax.forward(x)
    np.testing.assert_allclose(y, [[math.log(p) for p in slow_softmax(row)] for row in x], rtol=1e-14)
    expected = [
        [row_d[j] - slow_softmax(row)[j] * sum(row_d) for j in range(5)] for row, row_d in zip(x, d, strict=True)
    ]
    np.testing.assert_allclose(log_softmax.backward(saved, d)[0], expected, rtol=0, atol=5e-15)


def test_a_row_worked_out_by_hand():
    # exp gives 1, 2 and 5: weights 1/8, 2/8 and 5/8.
    x = np.log([[1.0, 2.0, 5.0]])
    y, saved = softmax.forward(x)
    np.testing.assert_allclose(y, [[0.125, 0.25, 0.625]], rtol=1e-15)
    # Against (8, 0, 0): d_x_j = y_j (d_j - 1).
    np.testing.assert_allclose(
        softmax.backward(saved, np.array([[8.0, 0, 0]]))[0], [[0.875, -0.25, -0.625]], rtol=1e-15
    )
    np.testing.assert_allclose(log_softmax.forward(x)[0], np.log([[0.125, 0.25, 0.625]]), rtol=1e-15)


@given(strategies.softmax(), strategies.generators())
@pytest.mark.parametrize("operation", [softmax, log_softmax], ids=["softmax", "log_softmax"])
def test_gradients_of_a_row_sum_to_zero(operation, example, rng):
    (x,), axis = example.inputs, example.options["axis"]
    d = rng.uniform(-2, 2, x.shape)
    _, saved = operation.forward(x, axis=axis)
    (d_x,) = operation.backward(saved, d)
    np.testing.assert_allclose(d_x.sum(axis=axis), 0, rtol=0, atol=1e-14)


@given(strategies.softmax())
def test_weights_are_positive_and_sum_to_one(example):
    (x,), axis = example.inputs, example.options["axis"]
    y, _ = softmax.forward(x, axis=axis)
    assert (y > 0).all()
    np.testing.assert_allclose(y.sum(axis=axis), float(x.shape[axis] > 0), rtol=1e-14)


def test_ties_share_and_single_scores_take_all():
    np.testing.assert_array_equal(softmax.forward(np.full((2, 4), 0.3))[0], np.full((2, 4), 0.25))
    y, saved = softmax.forward(np.array([[7.0], [-3.0]]))
    np.testing.assert_array_equal(y, 1)
    np.testing.assert_array_equal(softmax.backward(saved, np.array([[2.0], [5.0]]))[0], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_ten_thousand_and_infinite_ones_are_stable(dtype):
    x = np.array([[1e4, -1e4, 1e4], [-1e4, -1e4, -1e4 - 1], [0, -INF, 1e4], [-INF, -INF, 2]], dtype=dtype)
    y, saved = softmax.forward(x)
    low = 1 / (2 * math.e**1 + 1)
    expected = np.array([[0.5, 0, 0.5], [math.e * low, math.e * low, low], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(dtype).eps)
    (d_x,) = softmax.backward(saved, np.arange(12, dtype=dtype).reshape(4, 3) + 1)
    assert d_x.dtype == dtype
    np.testing.assert_array_equal(d_x[2:], 0)
    log_y, saved = log_softmax.forward(x)
    np.testing.assert_allclose(log_y[0], [-math.log(2), -2e4 - math.log(2), -math.log(2)], rtol=1e-6)
    assert np.isfinite(log_softmax.backward(saved, np.ones_like(x))[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_without_any_score_is_exactly_zero(dtype):
    x = np.array([[-INF, -INF, -INF], [1, 2, 3]], dtype=dtype)
    y, saved = softmax.forward(x)
    np.testing.assert_array_equal(y[0], 0)
    np.testing.assert_array_equal(softmax.backward(saved, np.array([[1, 2, 3]] * 2, dtype=dtype))[0][0], 0)
    assert (log_softmax.forward(x)[0][0] == -INF).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_difference_beyond_all_numbers_is_a_weight_of_zero_without_a_warning(dtype):
    large = dtype(0.9) * np.finfo(dtype).max
    x = np.array([[large, -large, large], [-large, -large, large]])
    for axis, rows in ((-1, x), (0, x.T)):
        y, saved = softmax.forward(rows.copy(), axis=axis)
        np.testing.assert_array_equal(y if axis else y.T, [[0.5, 0, 0.5], [0, 0, 1]])
        assert np.isfinite(softmax.backward(saved, np.ones_like(rows))[0]).all()
    y, _ = log_softmax.forward(x)
    np.testing.assert_allclose(y, [[-math.log(2), -INF, -math.log(2)], [-INF, -INF, 0]], rtol=1e-6)


def test_a_row_without_scores_has_weights_of_plus_zero():
    y, _ = softmax.forward(np.full((2, 3), -np.inf))
    np.testing.assert_array_equal(y, 0)
    assert not np.signbit(y).any()
