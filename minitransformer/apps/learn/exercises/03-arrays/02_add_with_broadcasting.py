"""The backward pass of z = x + y, for all shapes that broadcast.

NumPy repeats x, or y, or both, until they have one shape, the shape of z:

    x (2, 3, 4)   y (4,)    ->  z (2, 3, 4)      y is repeated
    x (2, 1, 4)   y (3, 1)  ->  z (2, 3, 4)      both are repeated

Each entry of z is a copy of an entry of x, plus a copy of an entry of y. So d_z
is the gradient of the repeated x, and of the repeated y too. What remains is
unbroadcast: copy yours above backward, or write it again.
"""

import numpy as np


def backward(x, y, d_z):
    """Return d_x, with the shape of x, and d_y, with the shape of y."""
    # [solution
    gradients = []
    for a in (x, y):
        d = d_z.sum(axis=tuple(range(d_z.ndim - a.ndim)))
        stretched = tuple(axis for axis, n in enumerate(a.shape) if n == 1)
        gradients.append(d.sum(axis=stretched, keepdims=True))
    d_x, d_y = gradients
    return d_x, d_y
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
