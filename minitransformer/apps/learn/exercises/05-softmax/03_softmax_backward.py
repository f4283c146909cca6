"""The gradient of the softmax.

y = softmax(x), along the last axis. You are given d_y, the gradient of the loss
with respect to y. In one row each y_i depends on every x_j, because all scores
are in the denominator. By the quotient rule

    dy_i/dx_j = y_i (1 - y_i)   if i = j
    dy_i/dx_j = - y_i y_j       otherwise

and by the chain rule

    d_x_j = sum_i d_y_i dy_i/dx_j

Derive from these a formula without the (V, V) matrix of derivatives: put the
two cases into the sum, and factor out what the terms have in common. It needs y
and d_y only, both (..., V), and one sum for each row.
"""

import numpy as np


def backward(y, d_y):
    """Return d_x (..., V)."""
    # [solution
    row_sum = (d_y * y).sum(axis=-1, keepdims=True)  # (..., 1)
    return y * (d_y - row_sum)
    # solution] in the exercise:
    #: # TODO
    #: return ...
