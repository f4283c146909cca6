"""Layer norm, backwards: the gradient of x.

The forward pass has kept what it computed on the way:

    r     = 1 / sqrt(var + eps)        (..., 1), one number for each row
    x_hat = r * (x - mean(x))          (..., D)
    y     = gain * x_hat + bias

Backwards through the last line, d_x_hat = d_y * gain. Through the others the
algebra gives, for each row of D features,

    d_x_j = r (d_x_hat_j - mean(d_x_hat) - x_hat_j mean(d_x_hat * x_hat))

The first mean is there because x_j acts on mu, the second because it acts on r.
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
    #: # TODO: three lines or so
    #: return ...
