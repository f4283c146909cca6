"""The two gradients of a matrix product.

    Y = X W        Y_tf = sum over a of X_ta W_af

with X of shape (T, D), W of shape (D, F) and Y of shape (T, F). Summing over
all uses gives

    d_X_ta = sum over f of d_Y_tf W_af
    d_W_af = sum over t of X_ta d_Y_tf

Each of these sums is a matrix product too, with one factor transposed. Which
one? (The summed index must be the second of the left factor and the first of
the right one.)
"""

import numpy as np


def backward(x, w, d_y):
    """Return d_x and d_w."""
    # [solution
    return d_y @ w.T, x.T @ d_y
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
