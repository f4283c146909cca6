"""The backward pass of y = w v.

The last step of attention is a matrix product, separately for each sentence and
head:

    y_ic = sum_j w_ij v_jc          w (..., Tq, Tk)   v (..., Tk, Dv)

So y_ic grows by v_jc when w_ij grows by 1, and by w_ij when v_jc grows by 1:

    d_w_ij = sum_c d_y_ic v_jc      d_v_jc = sum_i w_ij d_y_ic

Write both sums as matrix products. The shapes tell which matrix is transposed.
"""

import numpy as np


def backward(w, v, d_y):
    """Return d_w (..., Tq, Tk) and d_v (..., Tk, Dv), for d_y (..., Tq, Dv)."""
    # [solution
    return d_y @ v.swapaxes(-1, -2), w.swapaxes(-1, -2) @ d_y
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
