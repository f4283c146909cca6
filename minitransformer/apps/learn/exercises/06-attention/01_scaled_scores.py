"""Scaled scores: how well each query matches each key.

Attention compares every query with every key by a dot product. Its size grows
as sqrt(Dk) with the number Dk of features, so it is divided by sqrt(Dk):

    s_ij = (1/sqrt(Dk)) sum_c q_ic k_jc         s = q k^T / sqrt(Dk)

q is (..., Tq, Dk), k is (..., Tk, Dk). The leading axes, batch and heads, are
the same for both. Beware of k.T, which reverses all axes. k.swapaxes(-1, -2)
swaps only the last two.
"""

from math import sqrt

import numpy as np


def scores(q, k):
    """Return s (..., Tq, Tk)."""
    # [solution
    return q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])
    # solution] in the exercise:
    #: # TODO
    #: return ...
