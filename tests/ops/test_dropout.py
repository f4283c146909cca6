"""The operation dropout: what is kept, how often, and errors."""

import importlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import dropout

from minitransformer import Tensor
from minitransformer.arrays import asarray, to_numpy
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")


@given(strategies.dropout(), st.data())
def test_the_gradient_has_the_same_mask_and_scale(example, data):
    x, p, rng, residual = example.inputs
    y, saved = dropout.forward(x, p, rng, residual)
    keep, scale = to_numpy(saved[0]), saved[1]
    np.testing.assert_array_equal(y, np.where(keep, x * scale, 0) + (0 if residual is None else residual))
    d = data.draw(strategies.cotangents(x.shape))
    d_x, *_, d_residual = dropout.backward(saved, d)
    np.testing.assert_array_equal(d_x, np.where(keep, d * scale, 0))
    if residual is None:
        assert d_residual is None
    else:
        np.testing.assert_array_equal(d_residual, d)
        assert not np.shares_memory(d_residual, d)


def test_without_dropout_everything_passes():
    x = np.arange(6.0).reshape(2, 3)
    y, saved = dropout.forward(x, 0.0, np.random.default_rng(0))
    np.testing.assert_array_equal(y, x)
    assert not np.shares_memory(x, y)
    np.testing.assert_array_equal(dropout.backward(saved, x)[0], x)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_the_frequency_and_the_mean_are_right(p):
    n = 400_000
    y, _ = dropout.forward(np.ones(n), p, np.random.default_rng(1))
    dropped = int((y == 0).sum())
    deviation = math.sqrt(n * p * (1 - p))
    assert abs(dropped - n * p) < 5 * deviation + n / 65536  # p is rounded to a multiple of 1/65,536
    # The factor belongs to the rounded p, so that the mean is kept exactly in expectation.
    rounded = round(p * 65536) / 65536
    np.testing.assert_allclose(y.max(), 1 / (1 - rounded), rtol=1e-15)
    assert abs(y.mean() - 1) < 5 * math.sqrt(rounded / (1 - rounded) / n)


def test_neighbours_are_dropped_independently():
    y, _ = dropout.forward(np.ones(400_000), 0.5, np.random.default_rng(2))
    kept = y > 0
    for distance in (1, 2, 3, 4):
        both = int((kept[distance:] & kept[:-distance]).sum())
        assert abs(both - len(kept) / 4) < 5 * math.sqrt(len(kept) * 5 / 16)


def test_the_generator_alone_decides():
    x = np.ones((7, 11))
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    a = [dropout.forward(x, 0.5, first)[0] for _ in range(2)]
    b = [dropout.forward(x, 0.5, second)[0] for _ in range(2)]
    np.testing.assert_array_equal(a, b)
    assert (a[0] != a[1]).any()


def test_float32_stays_float32():
    x = np.ones(5, dtype=np.float32)
    y, saved = dropout.forward(x, np.float64(0.5), np.random.default_rng(0))
    assert y.dtype == dropout.backward(saved, x)[0].dtype == np.float32


def test_every_random_number_falls_on_its_side(monkeypatch):
    """Of the 65,536 equally likely numbers exactly round(65,536 p) drop an entry."""
    module = importlib.import_module("minitransformer.ops.dropout")
    numbers = asarray(np.arange(65536, dtype=np.uint16))
    monkeypatch.setattr(module, "random_bits", lambda rng, shape: numbers.reshape(shape))
    for p in (0.0, 0.1, 0.5, 1 - 1e-9):
        y = dropout(np.ones(65536), p, np.random.default_rng(0)).numpy()
        dropped = min(round(p * 65536), 65535)
        assert (y == 0).sum() == dropped
        np.testing.assert_allclose(y[y != 0], 65536 / (65536 - dropped), rtol=1e-15)


def test_the_composed_form_keeps_the_type():
    x = Tensor(np.ones(8, dtype=np.float32))
    assert dropout.reference(x, 0.5, np.random.default_rng(0)).dtype == np.float32
