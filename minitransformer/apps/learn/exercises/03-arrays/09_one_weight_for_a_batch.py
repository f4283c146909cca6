"""One weight for a whole batch.

    Y = X W

with X of shape (B, T, D), W of shape (D, F) and Y of shape (B, T, F). It is
the product of the last exercise for each of the B sentences, and all of them
share W:

    Y_btf = sum over a of X_bta W_af

Which sums does d_W need? W treats all B * T rows alike, so think of X as one
matrix with B * T rows.
"""

import numpy as np


def backward(x, w, d_y):
    """Return d_x, of shape (B, T, D), and d_w, of shape (D, F)."""
    # [solution
    D, F = w.shape
    return d_y @ w.T, x.reshape(-1, D).T @ d_y.reshape(-1, F)
    # solution] in the exercise:
    #: # TODO (reshape(-1, D) makes one matrix of all rows)
    #: return ..., ...
