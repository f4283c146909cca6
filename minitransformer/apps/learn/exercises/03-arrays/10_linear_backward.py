"""The backward pass of a linear layer.

    y = x w + b

with x of shape (B, T, D), w of shape (D, F), b of shape (F,) and y of shape
(B, T, F):

    y_btf = sum over a of x_bta w_af + b_f

All B * T rows share w and b. You know d_x and d_w from the last exercise. New
is b: in how many entries of y does b_f occur?
"""

import numpy as np


def backward(x, w, d_y):
    """Return d_x (B, T, D), d_w (D, F) and d_b (F,)."""
    # [solution
    D, F = w.shape
    d_rows = d_y.reshape(-1, F)  # (B * T, F)
    return d_y @ w.T, x.reshape(-1, D).T @ d_rows, d_rows.sum(axis=0)
    # solution] in the exercise:
    #: # TODO
    #: return ..., ..., ...
