"""A query that may attend to nothing.

It happens where a whole sentence is padding. Then every score of the row is
-inf, its largest too, and -inf - (-inf) is NaN. Even without that the row would
be 0 / 0. A NaN in one row reaches every gradient of the batch.

What should come out: weights of exactly 0 in that row, and so an output of 0.
All other rows are as they were.
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
