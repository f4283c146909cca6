"""How well each query matches each key.

Attention compares every query with every key by a dot product. With Dk features
its size grows as sqrt(Dk), so that is divided out:

    s_ij = (1/sqrt(Dk)) sum_c q_ic k_jc         s = q k^T / sqrt(Dk)

q is (..., Tq, Dk), k is (..., Tk, Dk). The leading axes, batch and heads, are
the same for both. Beware of k.T: it turns all axes round. k.swapaxes(-1, -2)
exchanges the last two only.
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
