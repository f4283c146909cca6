"""The backward pass of dropout.

The forward pass, dropout-forward, used keep, a boolean array that is True where
an entry is kept, and the probability p of dropping an entry. The backward pass
gets the same keep: another one would belong to another function.

For a given keep, y is a linear function of x. What is d_x?
"""

import numpy as np


def backward(keep, p, d_y):
    """Return d_x, for keep and d_y of one shape, and 0 <= p < 1."""
    # [solution
    return np.where(keep, d_y / (1 - p), 0.0)
    # solution] in the exercise:
    #: # TODO
    #: return ...
