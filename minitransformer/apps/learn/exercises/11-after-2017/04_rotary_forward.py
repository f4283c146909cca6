"""Rotary positions: turn each pair of features.

The features 2i and 2i + 1 of a query or a key are the coordinates of a point in
a plane. At position t this point is turned by the angle w_i t, where
w_i = 10000^(-2i/D):

    y_2i     = x_2i cos(w_i t) - x_2i+1 sin(w_i t)
    y_2i+1   = x_2i sin(w_i t) + x_2i+1 cos(w_i t)

x is (..., T, D). Its row n stands at positions[n]; in decoding the first row is
not at position 0.
"""

import numpy as np


def rotate(x, positions):
    """Return y, the shape of x, for positions (T,)."""
    d = x.shape[-1]
    angle = positions[:, None] / 10000 ** (np.arange(0, d, 2) / d)  # (T, D/2)
    cos, sin = np.cos(angle), np.sin(angle)
    # [solution
    even, odd = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = even * cos - odd * sin
    y[..., 1::2] = even * sin + odd * cos
    return y
    # solution] in the exercise:
    #: # TODO
    #: return ...
