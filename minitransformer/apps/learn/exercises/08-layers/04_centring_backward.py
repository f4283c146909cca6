"""Centring: the gradient of subtracting the mean.

In each row of D features

    c_i = x_i - mu          with mu = (1/D) sum_j x_j

x_j is in c_j directly, and with a factor of 1/D in mu, hence in every c_i of
its row:

    dc_i/dx_j = delta_ij - 1/D        delta_ij = 1 if i = j, else 0

Insert this into the chain rule, d_x_j = sum_i d_c_i dc_i/dx_j, and simplify the
sum.
"""

import numpy as np


def backward(d_c):
    """Return d_x, for d_c (..., D); both have the same shape."""
    # [solution
    return d_c - d_c.mean(axis=-1, keepdims=True)
    # solution] in the exercise:
    #: # TODO
    #: return ...
