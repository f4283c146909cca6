"""Mask before the softmax.

mask[i, j] is True where query i may attend to key j. Where it is False the
weight must be exactly 0, and the other weights must still sum to 1. The softmax
does both by itself, if the score of such a pair is so low that its exponential
is 0. Only one value is low enough in every case.

The mask can be broadcast to the scores: for scores (B, H, Tq, Tk) it may be
(Tq, Tk), or (B, 1, 1, Tk) where it hides padding. In this exercise every query
may see at least one key.
"""

import numpy as np


def softmax(x):
    """Return the softmax of x along its last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def weights(scores, mask):
    """Return the weights (..., Tq, Tk)."""
    # [solution
    return softmax(np.where(mask, scores, -np.inf))
    # solution] in the exercise:
    #: # TODO
    #: return ...
