"""The gradients of gain and bias.

The last line of layer norm is

    y = gain * x_hat + bias

with x_hat and y (B, T, D), gain and bias (D,). So the gain of feature i is used
in all B * T rows, and so is its bias. Each use adds its share.

What is the share of one row? Where the forward pass broadcasts, the backward
pass sums.
"""

import numpy as np


def backward(x_hat, d_y):
    """Return d_gain (D,) and d_bias (D,)."""
    # [solution
    return (d_y * x_hat).sum(axis=(0, 1)), d_y.sum(axis=(0, 1))
    # solution] in the exercise:
    #: # TODO: x_hat and d_y are (B, T, D)
    #: return ..., ...
