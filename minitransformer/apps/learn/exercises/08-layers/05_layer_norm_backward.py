"""The backward pass of layer norm: the gradient of x.

The forward pass, line by line; it has saved x_hat and r:

    c     = x - mean(x)                    (..., D)
    r     = 1 / sqrt(mean(c * c) + eps)    (..., 1), one number for each row
    x_hat = r * c                          (..., D)
    y     = gain * x_hat + bias            (..., D)

The means run over the D features of a row. Go back line by line, the last line
first. c is used twice: each c_j is in its own x_hat_j, and through

    dr/dc_j = -r^2 x_hat_j / D

it affects every x_hat_i of its row. The first line is centring-backward. Put it
all together: two means of each row are enough.
"""

import numpy as np


def backward(x_hat, r, gain, d_y):
    """Return d_x (..., D), for d_y (..., D) and gain (D,)."""
    # [solution
    d_x_hat = d_y * gain
    mean = d_x_hat.mean(axis=-1, keepdims=True)  # (..., 1)
    along = (d_x_hat * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    return r * (d_x_hat - mean - x_hat * along)
    # solution] in the exercise:
    #: # TODO: back through y, through x_hat and r, then through c
    #: return ...
