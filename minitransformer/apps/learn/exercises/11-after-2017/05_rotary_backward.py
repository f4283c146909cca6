"""The backward pass of rotary positions.

The forward pass turns each pair of features by the angle of its position:

    y_2i     = x_2i cos - x_2i+1 sin
    y_2i+1   = x_2i sin + x_2i+1 cos

The angles do not depend on x. So y = R x with a matrix R of blocks of two by
two, and d_x is the transpose of R times d_y. What does the transpose of a
rotation do?

cos and sin are (T, D/2), one number for each position and pair.
"""

import numpy as np


def backward(cos, sin, d_y):
    """Return d_x, for d_y (..., T, D)."""
    # [solution
    even, odd = d_y[..., 0::2], d_y[..., 1::2]
    d_x = np.empty_like(d_y)
    d_x[..., 0::2] = even * cos + odd * sin
    d_x[..., 1::2] = odd * cos - even * sin
    return d_x
    # solution] in the exercise:
    #: # TODO
    #: return ...
