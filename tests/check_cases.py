"""What the tests of ``check`` share: a function with a right backward pass, and a short way to its report."""

import numpy as np
import pytest

from minitransformer.testing import examine

TYPES = (np.float64, np.float32)
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 5)), RNG.normal(size=5)
EXACT = np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]])
"""Short binary fractions: differences of their squares are exact."""
each_type = pytest.mark.parametrize("dtype", TYPES)


def layer(x, w):
    return np.tanh(x * w)


def layer_backward(x, w, d_y):
    d_u = d_y * (1 - np.tanh(x * w) ** 2)
    return d_u * w, (d_u * x).sum(axis=0)


def verdict(function, backward, *inputs, dtype=np.float64, **arguments):
    return examine(function, backward=backward, inputs=[np.asarray(x, dtype) for x in inputs], **arguments)


def square(x):
    return x * x


def d_square(x, d_y):
    return 2 * x * d_y


def times(x, w):
    return x * w


def d_times(x, w, d_y):
    return w * d_y, x * d_y


def relu(x):
    return np.maximum(x, 0)
