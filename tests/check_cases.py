"""What the tests of ``check`` share: some functions with right backward passes, and a short way to a report."""

from importlib.util import find_spec

import numpy as np
import pytest

from minitransformer.testing import examine

TYPES = (np.float64, np.float32)
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 5)), RNG.normal(size=5)
EXACT = np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]])
"""Short binary fractions: differences of their squares are exact."""
each_type = pytest.mark.parametrize("dtype", TYPES)


def needs(library):
    """Skip a test where a library is missing; without an origin it is a folder of this name, such as tests/autograd."""
    found = find_spec(library)
    return pytest.mark.skipif(found is None or found.origin is None, reason=f"needs {library}")


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
