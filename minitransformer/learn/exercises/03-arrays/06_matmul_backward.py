"""The two gradients of a matrix product.

    Y = X W        Y_tf = sum over a of X_ta W_af

with X of shape (T, D), W of shape (D, F) and Y of shape (T, F). By the sum
over all uses

    d_X_ta = sum over f of d_Y_tf W_af
    d_W_af = sum over t of X_ta d_Y_tf

Each of these sums is a matrix product too, with one factor transposed. Which?
(An index that is summed must stand second on the left and first on the right.)
"""

import numpy as np


def backward(x, w, d_y):
    """Return d_x and d_w."""
    # [solution
    return d_y @ w.T, x.T @ d_y
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
