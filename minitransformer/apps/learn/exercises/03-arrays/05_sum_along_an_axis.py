"""The sum along an axis.

    y = x.sum(axis)

x has any number of axes, for example (B, T, D); with axis = 1 the shape of y
is (B, D), because the summed axis disappears:

    y_bd = sum over t of x_btd

Every x_btd is in one sum only, with the factor 1. So how much does the loss
grow if x_btd grows by 1? Which shape does the gradient of x have?
"""

import numpy as np


def backward(x, axis, d_y):
    """Return d_x."""
    # [solution
    return np.broadcast_to(np.expand_dims(d_y, axis), x.shape).copy()
    # solution] in the exercise:
    #: # TODO (np.expand_dims inserts an axis of length 1)
    #: return ...
