"""The operation additive_attention: values by loops, masks, invariants, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import additive_attention

from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(15)
TQ, TK, DQ, DKK, DV, A = 3, 4, 5, 6, 2, 7
SHAPES = [(TQ, DQ), (TK, DKK), (TK, DV), (DQ, A), (DKK, A), (A,), (A,)]


def draw(*leading):
    return [0.7 * RNG.normal(size=(*(leading if i < 3 else ()), *shape)) for i, shape in enumerate(SHAPES)]


def slow_attention(q, k, v, w_q, w_k, b, w, mask, d_y):
    """Compute the output and all gradients of one batch, pair by pair."""
    y, gradients = np.zeros((len(q), v.shape[1])), [np.zeros(x.shape) for x in (q, k, v, w_q, w_k, b, w)]
    d_q, d_k, d_v, d_w_q, d_w_k, d_b, d_w = gradients
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if mask[i][j]]
        t = {j: np.tanh(q[i] @ w_q + k[j] @ w_k + b) for j in seen}
        powers = {j: math.exp(t[j] @ w) for j in seen}
        p = {j: powers[j] / sum(powers.values()) for j in seen}
        d_p = {j: d_y[i] @ v[j] for j in seen}
        for j in seen:
            y[i] += p[j] * v[j]
            d_v[j] += p[j] * d_y[i]
            d_s = p[j] * (d_p[j] - sum(d_p[n] * p[n] for n in seen))
            d_z = d_s * w * (1 - t[j] ** 2)
            d_w += d_s * t[j]
            d_q[i] += w_q @ d_z
            d_k[j] += w_k @ d_z
            d_w_q += np.outer(q[i], d_z)
            d_w_k += np.outer(k[j], d_z)
            d_b += d_z
    return y, gradients


def test_additive_attention_against_loops():
    inputs, d_y = draw(2), RNG.normal(size=(2, TQ, DV))
    mask = RNG.random((2, TQ, TK)) < 0.6
    mask[0, 1] = False
    y, saved = additive_attention.forward(*inputs, mask)
    gradients = additive_attention.backward(saved, d_y)
    slow = [slow_attention(*(x[n] for x in inputs[:3]), *inputs[3:], mask[n], d_y[n]) for n in range(2)]
    np.testing.assert_allclose(y, [s[0] for s in slow], rtol=0, atol=1e-14)
    for place, gradient in enumerate(gradients):
        parts = [s[1][place] for s in slow]
        np.testing.assert_allclose(gradient, parts if place < 3 else sum(parts), rtol=0, atol=2e-14)


def test_a_score_of_nothing_gives_the_mean_of_the_values():
    *inputs, _ = draw(2)
    y, saved = additive_attention.forward(*inputs, np.zeros(A))
    np.testing.assert_allclose(y, np.broadcast_to(inputs[2].mean(axis=-2, keepdims=True), y.shape), rtol=0, atol=1e-15)
    *gradients, d_w = additive_attention.backward(saved, RNG.normal(size=y.shape))
    assert all((gradients[i] == 0).all() for i in (0, 1, 3, 4, 5))
    assert (d_w != 0).all()


def test_adding_to_every_value_adds_to_every_output():
    inputs = draw(2)
    y, saved = additive_attention.forward(*inputs)
    moved, _ = additive_attention.forward(*inputs[:2], inputs[2] + 3, *inputs[3:])
    np.testing.assert_allclose(moved, y + 3, rtol=0, atol=1e-14)
    # and so an equal gradient of all outputs' features moves no weight
    d_v = additive_attention.backward(saved, np.ones_like(y))[2]
    np.testing.assert_allclose(d_v.sum(axis=-2), TQ, rtol=1e-14)


@given(strategies.additive_attention(), st.data())
def test_the_bias_is_the_row_of_a_feature_that_is_always_one(example, data):
    q, k, v, w_q, w_k, b, w, mask = example.inputs
    ones = np.ones((*q.shape[:-1], 1))
    wider = (np.concatenate([q, ones], axis=-1), k, v, np.concatenate([w_q, b[None]]), w_k, 0 * b, w, mask)
    y, saved = additive_attention.forward(*example.inputs)
    again, saved_again = additive_attention.forward(*wider)
    np.testing.assert_allclose(again, y, rtol=0, atol=1e-13)
    d_y = data.draw(strategies.cotangents(y.shape))
    d_b = additive_attention.backward(saved, d_y)[5]
    _, _, _, d_w_q, _, d_b_again, _ = additive_attention.backward(saved_again, d_y)
    np.testing.assert_allclose(d_w_q[-1], d_b, rtol=0, atol=1e-11)
    np.testing.assert_allclose(d_b_again, d_b, rtol=0, atol=1e-11)


MASKS = {
    "one for all": lambda: np.arange(TK) % 3 > 0,
    "a single entry": lambda: np.array(False),
    "queries": lambda: np.array([True, False, True])[:, None],
    "padding": lambda: (np.arange(TK) < np.array([2, 0])[:, None])[:, None, None],
    "per head": lambda: RNG.random((3, TQ, TK)) < 0.6,
    "some rows wholly": lambda: (RNG.random((2, 3, TQ, TK)) < 0.6) & (np.arange(TQ) % 2 > 0)[:, None],
}


@pytest.mark.parametrize("kind", MASKS)
def test_what_is_hidden_is_exactly_nothing(kind):
    inputs, mask = draw(2, 3), MASKS[kind]()
    y, saved = additive_attention.forward(*inputs, mask)
    d_q, d_k, d_v, *_ = additive_attention.backward(saved, RNG.normal(size=y.shape))
    seen = np.broadcast_to(mask, (2, 3, TQ, TK))
    blind, unseen = ~seen.any(axis=-1), ~seen.any(axis=-2)
    for x, where in ((y, blind), (d_q, blind), (d_k, unseen), (d_v, unseen)):
        assert (x[where] == 0).all()
        assert where.all() or (x[~where] != 0).any()


def test_a_hidden_key_may_be_anything():
    inputs, mask = draw(2), np.arange(TK) < 2
    y, saved = additive_attention.forward(*inputs, mask)
    other = [x.copy() for x in inputs]
    other[1][:, 2:], other[2][:, 2:] = 1e4, -1e4
    changed, saved_changed = additive_attention.forward(*other, mask)
    np.testing.assert_array_equal(changed, y)
    d_y = RNG.normal(size=y.shape)
    gradients, others = (additive_attention.backward(s, d_y) for s in (saved, saved_changed))
    for place in (0, 3, 5, 6):
        np.testing.assert_array_equal(gradients[place], others[place])
