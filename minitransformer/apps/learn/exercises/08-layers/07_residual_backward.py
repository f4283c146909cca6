"""The backward pass of a residual connection with layer norm.

    s = x + sublayer(x)
    y = norm(s)

All are (T, D). The backward passes of the two functions are given:
norm_backward takes the gradient of y and returns that of s; sublayer_backward
takes the gradient of sublayer(x) and returns that of x.

x is used twice in the first line. What is d_x?
"""

import numpy as np


def backward(d_y, norm_backward, sublayer_backward):
    """Return d_x (T, D)."""
    # [solution
    d_s = norm_backward(d_y)
    return d_s + sublayer_backward(d_s)
    # solution] in the exercise:
    #: # TODO
    #: return ...
