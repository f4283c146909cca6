"""Scaled dot-product attention: equation (1) of the paper.

Each query gathers the values, weighted by how well it matches their keys:

    y = softmax(q k^T / sqrt(Dk)) v

q is (..., Tq, Dk), k is (..., Tk, Dk), v is (..., Tk, Dv), y is (..., Tq, Dv).
The softmax runs along the keys. mask (Tq, Tk) is True where a query may attend.
"""

from math import sqrt

import numpy as np


def masked_softmax(scores, mask):
    """Return the weights; exactly 0 where the mask is False."""
    scores = np.where(mask, scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask):
    """Return y (..., Tq, Dv)."""
    # [solution
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])  # (..., Tq, Tk)
    weights = masked_softmax(scores, mask)
    return weights @ v
    # solution] in the exercise:
    #: # TODO: scores, weights, output
    #: return ...
