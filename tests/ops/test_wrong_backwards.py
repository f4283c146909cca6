"""Backward passes with the mistakes that are made in practice: the proof must catch every one."""

import math

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import Operation
from minitransformer.ops import attention, cross_entropy, dropout, embedding, feed_forward, layer_norm, linear, softmax
from minitransformer.testing import prove

RNG = np.random.default_rng(8)


def normal(*shape):
    return RNG.standard_normal(shape)


def scaled(backward, factor, place=0):
    """Multiply one gradient by a factor."""

    def wrong(saved, d):
        gradients = list(backward(saved, d))
        gradients[place] = gradients[place] * factor
        return gradients

    return wrong


def layer_norm_without(part):
    def wrong(saved, d):
        x_hat, r, gain = saved
        g = d * gain
        mean = 0 if part == "mean" else g.mean(axis=-1, keepdims=True)
        along = 0 if part == "along" else (g * x_hat).mean(axis=-1, keepdims=True)
        d_x = (d if part == "gain" else g) - mean - x_hat * along
        return d_x * (1 if part == "r" else r), (d * x_hat).sum(axis=0), d.sum(axis=0)

    return wrong


def relu_of_output(saved, d):
    """Take h >= 0, which always holds, for a > 0."""
    x, hidden, w1, w2 = saved
    d_hidden = d @ w2.T * (hidden >= 0)
    return d_hidden @ w1.T, x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d, d.sum(axis=0)


def set_instead_of_added(saved, d):
    ids, shape = saved
    d_table = np.zeros(shape)
    d_table[ids] = d
    return None, d_table


def attention_that_leaks(saved, d):
    """Let a little of the gradient through to what the mask hides."""
    q, k, v, weights = saved
    return attention.backward((q, k, v, np.maximum(weights, 1e-6)), d)


def ignored_rows_counted(saved, d):
    p, targets, counts, n, smoothing, shape = saved
    return cross_entropy.backward((p, targets, counts | True, n, smoothing, shape), d)


MASK = RNG.random((3, 5)) < 0.5
MASK[1] = False
X, GAIN, BIAS = (normal(3, 4),), normal(4), normal(4)
QKV = (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 6), MASK)
FEED = (normal(3, 4), normal(4, 6), normal(6), normal(6, 5), normal(5))
TARGETS = (normal(4, 5), np.array([1, 0, 4, 4]))

WRONG = {
    "softmax: zero": (softmax, scaled(softmax.backward, 0), X, {}),
    "softmax: no sum": (softmax, lambda saved, d: (saved[0] * d,), X, {}),
    "softmax: divided by the batch": (softmax, scaled(softmax.backward, 1 / 3), X, {}),
    "softmax: along the wrong axis": (softmax, lambda saved, d: softmax.backward((saved[0], 0), d), X, {}),
    "attention: q without 1/sqrt(Dk)": (attention, scaled(attention.backward, math.sqrt(4), 0), QKV, {}),
    "attention: k without 1/sqrt(Dk)": (attention, scaled(attention.backward, math.sqrt(4), 1), QKV, {}),
    "attention: sign of v": (attention, scaled(attention.backward, -1, 2), QKV, {}),
    "attention: leaks through the mask": (attention, attention_that_leaks, QKV, {}),
    "layer norm: no mean": (layer_norm, layer_norm_without("mean"), (*X, GAIN, BIAS), {}),
    "layer norm: no projection": (layer_norm, layer_norm_without("along"), (*X, GAIN, BIAS), {}),
    "layer norm: no gain": (layer_norm, layer_norm_without("gain"), (*X, GAIN, BIAS), {}),
    "layer norm: no r": (layer_norm, layer_norm_without("r"), (*X, GAIN, BIAS), {}),
    "linear: weight transposed": (
        linear,
        lambda saved, d: (d @ saved[1], *linear.backward(saved, d)[1:]),
        (normal(3, 4), normal(4, 4)),
        {},
    ),
    "linear: mean for the bias": (
        linear,
        scaled(linear.backward, 1 / 3, 2),
        (normal(3, 4), normal(4, 5), normal(5)),
        {},
    ),
    "feed forward: every unit lets through": (feed_forward, relu_of_output, FEED, {}),
    "embedding: set": (embedding, set_instead_of_added, (np.array([0, 2, 2]), normal(3, 4)), {}),
    "dropout: no factor": (
        dropout,
        lambda saved, d: (d * saved[0],),
        (normal(5, 6), 0.5, np.random.default_rng(0)),
        {},
    ),
    "cross entropy: ignored rows counted": (cross_entropy, ignored_rows_counted, TARGETS, {"ignore_index": 0}),
    "cross entropy: sum, not mean": (cross_entropy, scaled(cross_entropy.backward, 4), TARGETS, {}),
    "cross entropy: no smoothing": (
        cross_entropy,
        lambda saved, d: cross_entropy.backward((*saved[:4], 0.0, saved[5]), d),
        TARGETS,
        {"label_smoothing": 0.1},
    ),
}


@pytest.mark.parametrize("with_composed", [True, False], ids=["composed", "finite differences alone"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_backward_passes_are_caught(name, with_composed):
    operation, backward, inputs, options = WRONG[name]
    composed = operation.composed if with_composed else None
    wrong = Operation(operation.forward, backward, composed=composed, name="wrong")
    with pytest.raises(AssertionError, match="DIFFERS"):
        prove(wrong, inputs, **options)


@pytest.mark.parametrize("name", WRONG)
def test_the_right_ones_pass_on_the_same_inputs(name):
    operation, _, inputs, options = WRONG[name]
    assert mt.ops.registry[operation.name] is operation
    prove(operation, inputs, **options)
