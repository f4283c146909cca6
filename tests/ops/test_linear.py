"""The operations linear and feed_forward: values by loops, the kink, errors."""

import numpy as np
import pytest
from passes import feed_forward, linear

import minitransformer as mt
from minitransformer.arrays import asarray

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(7)


def slow_linear(x, w, b, d):
    """Compute the output and the three gradients entry by entry."""
    n, d_in, d_out = len(x), len(w), len(w[0])
    y = [[sum(x[r][i] * w[i][j] for i in range(d_in)) + b[j] for j in range(d_out)] for r in range(n)]
    d_x = [[sum(d[r][j] * w[i][j] for j in range(d_out)) for i in range(d_in)] for r in range(n)]
    d_w = [[sum(x[r][i] * d[r][j] for r in range(n)) for j in range(d_out)] for i in range(d_in)]
    d_b = [sum(d[r][j] for r in range(n)) for j in range(d_out)]
    return y, d_x, d_w, d_b


def test_linear_against_loops():
    x, w, b, d = (RNG.normal(size=s) for s in ((2, 3, 4), (4, 5), (5,), (2, 3, 5)))
    y, saved = linear.forward(x, w, b)
    d_x, d_w, d_b = linear.backward(saved, d)
    slow = slow_linear(x.reshape(6, 4), w, b, d.reshape(6, 5))
    for ours, expected in zip((y.reshape(6, 5), d_x.reshape(6, 4), d_w, d_b), slow, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-14)


def test_linear_without_a_bias():
    y, saved = linear.forward(np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    assert y.tolist() == [13, 16]
    d_x, d_w, d_b = linear.backward(saved, np.array([1.0, 10.0]))
    assert d_x.tolist() == [43, 65]
    assert d_w.tolist() == [[1, 10], [2, 20]]
    assert d_b is None


def test_feed_forward_against_loops():
    x, w1, b1, w2, b2, d = (RNG.normal(size=s) for s in ((3, 4), (4, 6), (6,), (6, 5), (5,), (3, 5)))
    y, saved = feed_forward.forward(x, w1, b1, w2, b2)
    a = np.array(slow_linear(x, w1, b1, np.zeros((3, 6)))[0])
    hidden = [[max(0.0, value) for value in row] for row in a]
    slow_y, d_hidden, d_w2, d_b2 = slow_linear(hidden, w2, b2, d)
    d_a = [[g if value > 0 else 0.0 for g, value in zip(*rows, strict=True)] for rows in zip(d_hidden, a, strict=True)]
    _, d_x, d_w1, d_b1 = slow_linear(x, w1, b1, d_a)
    assert (a > 0).any()
    assert (a < 0).any()
    found = (y, *feed_forward.backward(saved, d))
    for ours, expected in zip(found, (slow_y, d_x, d_w1, d_b1, d_w2, d_b2), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-14)


def test_at_the_kink_no_gradient_flows():
    x, one = np.array([[0.0]]), np.array([[1.0]])
    _, saved = feed_forward.forward(x, one, np.zeros(1), one, np.zeros(1))
    d_x, d_w1, d_b1, d_w2, d_b2 = feed_forward.backward(saved, np.array([[3.0]]))
    assert [float(g.sum()) for g in (d_x, d_w1, d_b1, d_w2, d_b2)] == [0, 0, 0, 0, 3]


def test_the_gradient_of_a_transposed_weight_lies_in_memory_as_the_weight_does():
    # An output layer that shares the embedding is its transpose; so its gradient can be added to without a jump.
    rng = np.random.default_rng(0)
    table = asarray(rng.normal(size=(5, 3)))
    _, saved = mt.ops.linear.forward(asarray(rng.normal(size=(2, 3))), table.T)
    _, d_weight, _ = mt.ops.linear.backward(saved, asarray(rng.normal(size=(2, 5))))
    assert d_weight.strides == table.T.strides
    assert d_weight.flags.f_contiguous
    assert not d_weight.flags.c_contiguous
