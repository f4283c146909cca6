"""The backward pass of the scaled scores.

    s_ij = (1/sqrt(Dk)) sum_c q_ic k_jc         s = q k^T / sqrt(Dk)

q is (..., Tq, Dk), k is (..., Tk, Dk), s is (..., Tq, Tk). For one entry, find
how s grows with it, then sum over all entries of s that contain it: q_ic is in
row i of s, k_jc in column j.
"""

from math import sqrt

import numpy as np


def backward(q, k, d_s):
    """Return d_q (..., Tq, Dk) and d_k (..., Tk, Dk)."""
    # [solution
    d_s = d_s / sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
