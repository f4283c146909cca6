"""A gradient by finite differences, entry by entry.

y = f(x) is an array, so it has no single derivative. Choose an array d_y with
the shape of y, and take the number

    L = sum over all i of d_y_i y_i

Its gradient with respect to y is d_y. So its gradient with respect to x is what
a correct backward pass returns for this d_y, and it can be measured: move one
entry of x by h to both sides, and see how much L changes.
"""

import numpy as np


def measured(f, x, d_y, h=1e-5):
    """Return the gradient of L, in the shape of x, by central differences."""
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        # [solution
        d_x[index] = (d_y * (f(x + step) - f(x - step))).sum() / (2 * h)
        # solution] in the exercise:
        #: # TODO
        #: d_x[index] = ...
    return d_x
