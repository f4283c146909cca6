"""The forward pass of dropout.

In training each entry of x is dropped with probability p: it becomes 0. So the
model cannot rely on any single entry. keep has been drawn already: a boolean
array, True where an entry is kept.

At inference nothing is dropped. So that entries have the same scale in both
cases, the kept ones are multiplied in training by a factor that makes the
expected value of y_i equal to x_i. An entry is kept with probability 1 - p.
What is the factor?
"""

import numpy as np


def forward(x, keep, p):
    """Return y, for x and keep of one shape, and 0 <= p < 1."""
    # [solution
    return np.where(keep, x / (1 - p), 0.0)
    # solution] in the exercise:
    #: # TODO
    #: return ...
