"""The gradients of a gain and a bias.

Each feature is scaled and shifted by numbers of its own:

    y = gain * x + bias

x has the shape (..., D): any number of axes before the last. gain and bias have
the shape (D,); they are the same for all sentences and all positions. Every
layer norm ends with this step.
"""

import numpy as np


def backward(x, gain, d_y):
    """Return d_x, d_gain and d_bias."""
    # [solution
    others = tuple(range(x.ndim - 1))
    return d_y * gain, (d_y * x).sum(axis=others), d_y.sum(axis=others)
    # solution] in the exercise:
    #: # TODO: each has the shape of what it is the gradient of
    #: return ..., ..., ...
