"""A query that may attend to nothing.

This happens if a whole sentence is padding. Then every score of the row is
-inf, even the largest, and -inf - (-inf) is NaN. Without subtracting the
largest, the row would be 0 / 0, NaN as well. A NaN in one row spreads to every
gradient of the batch.

Return weights of exactly 0 in that row, so that its output is 0. The other rows
do not change.
"""

import numpy as np


def weights(scores, mask):
    """Return the weights (..., Tq, Tk), without a NaN and without a warning."""
    scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)  # -inf without any key
    # [solution
    exponentials = np.exp(scores - np.where(largest == -np.inf, 0.0, largest))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)
    # solution] in the exercise:
    #: # TODO: exponentials, their sum, the division; two of them need care
    #: return ...
