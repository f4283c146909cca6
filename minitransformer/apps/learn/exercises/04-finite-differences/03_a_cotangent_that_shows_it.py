"""A cotangent that reveals the mistake.

The array d_y that goes into a backward pass is called the cotangent. Many
tests take ones, because that is what `y.sum().backward()` means.

Below are two gradients of the softmax. The second uses the mean of d_y instead
of its weighted sum. If d_y is all ones, both are 0, so such a test accepts the
wrong one. (Why 0? What is the sum of a row of a softmax?)

Return a cotangent with which the two differ.
"""

import numpy as np


def softmax(x):
    """Return weights that sum to 1 in each row; x has the shape (B, T)."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def right(y, d_y):
    """Return d_x, from the output y."""
    return y * (d_y - (d_y * y).sum(axis=-1, keepdims=True))


def wrong(y, d_y):
    """Return what is not d_x."""
    return y * (d_y - d_y.mean(axis=-1, keepdims=True))


def cotangent(x):
    """Return d_y, an array with the shape of x."""
    # [solution
    return np.random.default_rng(0).normal(size=x.shape)
    # solution] in the exercise:
    #: # TODO: not np.ones(x.shape)
    #: return ...
