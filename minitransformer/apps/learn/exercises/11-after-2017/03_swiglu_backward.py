"""The backward pass of SwiGLU.

The last axis of x holds F gates and then F values. A gate decides how much of
its value passes:

    a, b = the first and the last F features of x
    z    = 1 / (1 + exp(-a))
    u    = a * z
    y    = u * b

u is called SiLU; it is close to max(0, a), without a corner. a is used twice in
it. z is the sigmoid, and dz/da = z * (1 - z).
"""

import numpy as np


def backward(x, d_y):
    """Return d_x (..., 2F), for x (..., 2F) and d_y (..., F)."""
    f = x.shape[-1] // 2
    a, b = x[..., :f], x[..., f:]
    z = 1 / (1 + np.exp(-a))
    # [solution
    u = a * z
    d_b = d_y * u
    d_a = d_y * b * (z + u * (1 - z))
    return np.concatenate((d_a, d_b), axis=-1)
    # solution] in the exercise:
    #: # TODO: d_a and d_b, side by side
    #: return ...
