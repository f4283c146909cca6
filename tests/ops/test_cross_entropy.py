"""The operation cross_entropy: values by loops, ignored targets, smoothing, extremes, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import cross_entropy

from minitransformer import Tensor
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")


def slow(logits, targets, smoothing, ignore):
    """Compute the loss and its gradient row by row from the definition."""
    n_tokens = logits.shape[-1]
    rows, flat = logits.reshape(-1, n_tokens), targets.reshape(-1)
    counted = [r for r in range(len(flat)) if flat[r] != ignore]
    loss, gradient = 0.0, np.zeros(rows.shape)
    for r in counted:
        total = sum(math.exp(x) for x in rows[r])
        for v in range(n_tokens):
            wanted = (1 - smoothing) * (v == flat[r]) + smoothing / n_tokens
            loss -= wanted * math.log(math.exp(rows[r][v]) / total) / len(counted)
            gradient[r][v] = (math.exp(rows[r][v]) / total - wanted) / len(counted)
    return loss, gradient.reshape(logits.shape)


@given(strategies.cross_entropy(), st.floats(-3, 3))
def test_cross_entropy_against_loops(example, d):
    logits, targets = example.inputs
    loss, saved = cross_entropy.forward(logits, targets, **example.options)
    d_logits, nothing = cross_entropy.backward(saved, np.array(d))
    options = example.options
    slow_loss, slow_gradient = slow(logits, targets, options.get("label_smoothing", 0.0), options.get("ignore_index"))
    assert nothing is None
    assert loss == pytest.approx(slow_loss, rel=1e-13, abs=1e-14)
    np.testing.assert_allclose(d_logits, d * slow_gradient, rtol=0, atol=1e-15 * max(1, abs(d)))
    np.testing.assert_allclose(d_logits.sum(axis=-1), 0, rtol=0, atol=1e-14)


def test_ignored_targets_have_neither_loss_nor_gradient():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4))
    targets = np.array([[1, 0, 2], [0, 3, 0]])
    loss, saved = cross_entropy.forward(logits, targets, 0.1, ignore_index=0)
    alone, _ = cross_entropy.forward(logits[targets != 0], targets[targets != 0], 0.1)
    assert loss == pytest.approx(float(alone), rel=1e-15)
    d_logits, _ = cross_entropy.backward(saved, np.array(1.7))
    np.testing.assert_array_equal(d_logits[targets == 0], 0)
    assert (d_logits[targets != 0] != 0).all()


@pytest.mark.parametrize("shape", [(2, 3), (0,), (2, 0)])
def test_if_nothing_counts_loss_and_gradient_are_zero(shape):
    logits = np.random.default_rng(1).normal(size=(*shape, 4))
    loss, saved = cross_entropy.forward(logits, np.full(shape, -100), 0.1, ignore_index=-100)
    assert loss == 0
    np.testing.assert_array_equal(cross_entropy.backward(saved, np.array(2.0))[0], np.zeros((*shape, 4)))


@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
def test_tied_logits_cost_the_logarithm_of_their_number(smoothing):
    loss, saved = cross_entropy.forward(np.full((3, 5), 0.7), np.array([0, 4, 4]), smoothing)
    assert loss == pytest.approx(math.log(5), rel=1e-15)
    d_logits, _ = cross_entropy.backward(saved, np.array(3.0))
    expected = np.full((3, 5), (1 - smoothing) / 5)
    expected[[0, 1, 2], [0, 4, 4]] -= 1 - smoothing
    np.testing.assert_allclose(d_logits, expected, rtol=0, atol=1e-15)


def test_smoothing_by_hand():
    # Probabilities 1/4 and 3/4, target 1, half of the weight spread: q = (1/4, 3/4), so the gradient vanishes.
    loss, saved = cross_entropy.forward(np.array([0.0, math.log(3)]), np.array(1), label_smoothing=0.5)
    assert loss == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75), rel=1e-15)
    np.testing.assert_allclose(cross_entropy.backward(saved, np.array(1.0))[0], 0, atol=1e-16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_and_infinite_logits_keep_their_digits(dtype):
    eps = float(np.finfo(dtype).eps)
    logits = np.array([[1e4, 1e4, -1e4], [1e4, -1e4, 0], [-1e4, -1e4, -1e4], [0, -np.inf, 0]], dtype=dtype)
    losses = [math.log(2), 2e4, math.log(3), math.log(2)]
    for row, target, expected in zip(logits, (0, 1, 2, 2), losses, strict=True):
        loss, saved = cross_entropy.forward(row, np.array(target))
        assert loss.dtype == dtype
        assert loss == pytest.approx(expected, rel=4 * eps)
        d_row = cross_entropy.backward(saved, np.array(1, dtype=dtype))[0]
        assert d_row.dtype == dtype
        assert np.isfinite(d_row).all()
    loss, _ = cross_entropy.forward(logits[0], np.array(0), label_smoothing=0.3)
    assert loss == pytest.approx(math.log(2) + 0.1 * 2e4, rel=4 * eps)


def test_a_float64_smoothing_does_not_widen_float32():
    logits = np.ones((2, 3), dtype=np.float32)
    loss, saved = cross_entropy.forward(logits, np.array([0, 1]), label_smoothing=np.float64(0.1))
    assert loss.dtype == np.float32
    assert cross_entropy.backward(saved, np.array(1, dtype=np.float32))[0].dtype == np.float32


def test_a_single_token_costs_nothing():
    loss, saved = cross_entropy.forward(np.array([[3.0], [-2.0]]), np.array([0, 0]), 0.1)
    assert loss == 0
    np.testing.assert_allclose(cross_entropy.backward(saved, np.array(1.0))[0], 0, atol=1e-16)


def test_the_composed_form_takes_lists_and_keeps_the_type():
    logits = Tensor(np.eye(3, dtype=np.float32))
    loss = cross_entropy.reference(logits, [0, 1, 2], label_smoothing=0.1, ignore_index=2)
    assert loss.dtype == np.float32
    value, _ = cross_entropy.forward(logits.data, [0, 1, 2], label_smoothing=0.1, ignore_index=2)
    np.testing.assert_allclose(loss.numpy(), value, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("logits", [[-np.inf] * 4, [1.0, 2.0, -np.inf, 3.0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_target_without_any_probability_costs_infinitely_much(logits, smoothing, dtype):
    """Also where all logits are -inf: no token is possible, and every p is 0, as in softmax."""
    x = np.array([logits], dtype=dtype)
    loss, saved = cross_entropy.forward(x, np.array([2]), smoothing)
    assert loss == np.inf
    assert loss.dtype == dtype
    p = np.exp(x[0].astype(float)) / max(np.exp(x[0].astype(float)).sum(), 1e-300)
    wanted = p - (1 - smoothing) * np.eye(4)[2] - smoothing / 4
    np.testing.assert_allclose(cross_entropy.backward(saved, np.array(1, dtype=dtype))[0][0], wanted, atol=1e-6)


@pytest.mark.parametrize("targets", [[0, 1], [0, 3]])
def test_a_logit_of_minus_infinity_costs_nothing_where_it_has_no_share(targets):
    logits = np.array([[1.0, 2.0, -np.inf, 0.5], [-np.inf, 0.0, -np.inf, 2.0]])
    loss, _ = cross_entropy.forward(logits, np.array(targets))
    assert loss == pytest.approx(slow(np.maximum(logits, -300), np.array(targets), 0.0, None)[0], rel=1e-14)
    composed = cross_entropy.reference(Tensor(logits), np.array(targets))
    assert composed.item() == pytest.approx(float(loss), rel=1e-14)


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_an_ignored_row_may_have_no_possible_token(smoothing):
    logits = np.array([[1.0, 2.0, 0.0], [-np.inf] * 3])
    options = {"label_smoothing": smoothing, "ignore_index": 9}
    loss, saved = cross_entropy.forward(logits, np.array([1, 9]), **options)
    assert loss == cross_entropy.forward(logits[:1], np.array([1]), **options)[0]
    np.testing.assert_array_equal(cross_entropy.backward(saved, np.array(2.0))[0][1], 0)


def test_an_ignored_row_may_hold_anything():
    """Neither its loss nor its gradient is looked at, not even as 0 times what is there."""
    logits, targets = np.arange(12.0).reshape(3, 4), np.array([2, 0, 3])
    options = {"label_smoothing": 0.1, "ignore_index": 0}
    wanted, saved = cross_entropy.forward(logits, targets, **options)
    wanted_gradient, _ = cross_entropy.backward(saved, np.array(1.5))
    logits[1] = np.nan
    loss, saved = cross_entropy.forward(logits, targets, **options)
    gradient, _ = cross_entropy.backward(saved, np.array(1.5))
    assert loss == wanted
    np.testing.assert_array_equal(gradient, wanted_gradient)
