"""The backward pass of the masked softmax.

The weights were w = softmax(s) along the keys, and exactly 0 where the mask is
False. A masked score has no effect, so its gradient is exactly 0.

You know the gradient of a softmax. Does the mask need anything more? Look at
what the formula gives where w is 0, and in a row in which every w is 0.
"""

import numpy as np


def backward(w, d_w):
    """Return d_s (..., Tq, Tk), for w and d_w of the same shape."""
    # [solution
    return w * (d_w - (d_w * w).sum(axis=-1, keepdims=True))
    # solution] in the exercise:
    #: # TODO
    #: return ...
