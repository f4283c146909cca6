"""The operation recurrence: values by loops, what depends on what, long sentences, errors."""

import math

import numpy as np
import pytest
from passes import recurrence

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(12)
B, T, D, E = 2, 5, 3, 4


def draw(*shape):
    return 0.7 * RNG.normal(size=shape)


def inputs(t=T, d=D, e=E, batch=B):
    return [draw(batch, t, d), draw(d, e), draw(e, e), draw(e), draw(batch, e)]


def slow_recurrence(x, w, u, b, h0, d_y):
    """Compute the states of one sentence and all gradients, entry by entry from the formulas."""
    length, states, units = len(x), [h0], range(len(h0))
    for t in range(length):
        a = [
            sum(x[t][i] * w[i][j] for i in range(len(w))) + sum(states[-1][i] * u[i][j] for i in units) + b[j]
            for j in units
        ]
        states.append([math.tanh(value) for value in a])
    d_x, d_w, d_u, d_b = np.zeros(x.shape), np.zeros(w.shape), np.zeros(u.shape), np.zeros(b.shape)
    d_next = np.zeros(len(h0))  # d_a at t + 1
    for t in reversed(range(length)):
        d_a = np.zeros(len(h0))
        for j in units:
            d_h = d_y[t][j] + sum(d_next[i] * u[j][i] for i in units)
            d_a[j] = d_h * (1 - states[t + 1][j] ** 2)
        d_x[t], d_next = w @ d_a, d_a
        d_w += np.outer(x[t], d_a)
        d_u += np.outer(states[t], d_a)
        d_b += d_a
    return np.array(states[1:]), d_x, d_w, d_u, d_b, u @ d_next


@pytest.mark.parametrize("begins", ["from zero", "from h0"])
def test_recurrence_against_loops(begins):
    x, w, u, b, h0 = inputs()
    h0 = h0 if begins == "from h0" else None
    d_y = draw(B, T, E)
    h, saved = recurrence.forward(x, w, u, b, h0)
    gradients = recurrence.backward(saved, d_y)
    slow = [slow_recurrence(x[n], w, u, b, np.zeros(E) if h0 is None else h0[n], d_y[n]) for n in range(B)]
    for n in range(B):
        np.testing.assert_allclose(h[n], slow[n][0], rtol=0, atol=1e-14)
        np.testing.assert_allclose(gradients[0][n], slow[n][1], rtol=0, atol=1e-14)
    for place in (1, 2, 3):
        np.testing.assert_allclose(gradients[place], sum(s[place + 1] for s in slow), rtol=0, atol=4e-14)
    if h0 is None:
        assert gradients[4] is None
    else:
        np.testing.assert_allclose(gradients[4], [s[5] for s in slow], rtol=0, atol=1e-14)


def test_zero_is_where_it_begins():
    x, w, u, b, _ = inputs()
    h, saved = recurrence.forward(x, w, u, b)
    again, saved_again = recurrence.forward(x, w, u, b, np.zeros((B, E)))
    np.testing.assert_array_equal(h, again)
    d_y = draw(B, T, E)
    one, other = recurrence.backward(saved, d_y), recurrence.backward(saved_again, d_y)
    for a, b in zip(one[:4], other[:4], strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_position_after_the_other_is_all_at_once():
    x, w, u, b, h0 = inputs()
    h, _ = recurrence.forward(x, w, u, b, h0)
    first, _ = recurrence.forward(x[:, :2], w, u, b, h0)
    second, _ = recurrence.forward(x[:, 2:], w, u, b, first[:, -1])
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), h, rtol=0, atol=1e-15)


def test_a_state_depends_on_all_inputs_before_it_and_on_none_after():
    x, w, u, b, h0 = inputs()
    h, saved = recurrence.forward(x, w, u, b, h0)
    other = x.copy()
    other[:, 3:] = 9
    np.testing.assert_array_equal(recurrence.forward(other, w, u, b, h0)[0][:, :3], h[:, :3])
    d_y = np.zeros_like(h)
    d_y[:, 2] = draw(B, E)
    d_x, *_, d_h0 = recurrence.backward(saved, d_y)
    assert (d_x[:, 3:] == 0).all()
    assert (d_x[:, :3] != 0).all()
    assert (d_h0 != 0).all()


def test_without_a_way_back_each_position_is_a_linear_layer_with_a_tanh():
    x, w, _, b, h0 = inputs()
    none = np.zeros((E, E))
    h, saved = recurrence.forward(x, w, none, b, h0)
    np.testing.assert_allclose(h, np.tanh(x @ w + b), rtol=0, atol=1e-15)
    d_y = draw(B, T, E)
    d_x, *_, d_h0 = recurrence.backward(saved, d_y)
    np.testing.assert_allclose(d_x, (d_y * (1 - h**2)) @ w.T, rtol=0, atol=1e-15)
    assert (d_h0 == 0).all()


def test_the_gradient_vanishes_or_stays_with_the_size_of_u():
    """With states near 0 the way back over n steps multiplies by U to the power of n."""
    x, h0 = np.zeros((1, 30, 2)), np.full((1, 2), 1e-200)
    for size in (0.5, 1.0):
        h, saved = recurrence.forward(x, np.zeros((2, 2)), size * np.eye(2), np.zeros(2), h0)
        d_y = np.zeros_like(h)
        d_y[:, -1] = 1
        np.testing.assert_allclose(recurrence.backward(saved, d_y)[4], size**30, rtol=1e-12)


def test_a_saturated_state_has_no_gradient_and_nothing_overflows():
    x, w, u, b, h0 = (np.full(shape, 1e4) for shape in ((1, 3, 2), (2, 2), (2, 2), (2,), (1, 2)))
    h, saved = recurrence.forward(x, w, u, b, h0)
    assert (h == 1).all()
    assert all((gradient == 0).all() for gradient in recurrence.backward(saved, np.ones_like(h)))
