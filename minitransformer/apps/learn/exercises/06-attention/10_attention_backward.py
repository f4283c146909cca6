"""The whole backward pass of attention.

    s = q k^T / sqrt(Dk)        scores    (..., Tq, Tk)
    w = softmax(s)              weights   (..., Tq, Tk), 0 where a key is hidden
    y = w v                     output    (..., Tq, Dv)

q is (..., Tq, Dk), k is (..., Tk, Dk), v is (..., Tk, Dv). The forward pass has
saved q, k, v and w. Go back through the three lines in reverse order: first d_w
and d_v from d_y, then d_s from d_w, then d_q and d_k from d_s. You have written
each of the three steps before.
"""

from math import sqrt

import numpy as np


def backward(q, k, v, w, d_y):
    """Return d_q, d_k and d_v, for d_y (..., Tq, Dv)."""
    # [solution
    # y = w v
    d_w = d_y @ v.swapaxes(-1, -2)
    d_v = w.swapaxes(-1, -2) @ d_y
    # w = softmax(s)
    d_s = w * (d_w - (d_w * w).sum(axis=-1, keepdims=True))
    # s = q k^T / sqrt(Dk)
    d_s = d_s / sqrt(q.shape[-1])
    d_q = d_s @ k
    d_k = d_s.swapaxes(-1, -2) @ q
    return d_q, d_k, d_v
    # solution] in the exercise:
    #: # TODO
    #: return ..., ..., ...
