"""The backward pass of RMSNorm.

The forward pass, line by line; it has saved x_hat and r:

    r     = 1 / sqrt(mean(x * x) + eps)    (..., 1), one number for each row
    x_hat = r * x                          (..., D)
    y     = gain * x_hat                   (..., D)

Go back line by line, the last line first. The gain is used in all rows. Each
x_j is used twice: in its own x_hat_j, and in r, which is in every x_hat_i of
its row. So you need dr/dx_j; written with r and x_hat_j it is short.

You have done this for layer norm. What is left of it, if nothing is centred?
"""

import numpy as np


def backward(x_hat, r, gain, d_y):
    """Return d_x (..., D) and d_gain (D,), for d_y (..., D)."""
    # [solution
    d_gain = (d_y * x_hat).sum(axis=tuple(range(d_y.ndim - 1)))
    d_x_hat = d_y * gain
    along = (d_x_hat * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    return r * (d_x_hat - x_hat * along), d_gain
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
