"""The backward pass of the feed-forward network.

    a = x w1 + b1        (B, T, F)
    h = max(0, a)        (B, T, F)
    y = h w2 + b2        (B, T, D)

with x of shape (B, T, D), w1 (D, F), b1 (F,), w2 (F, D) and b2 (D,). The
forward pass has saved x and h. It need not save a: h shows where a > 0.

Go back through the three lines in reverse order. You have written each of the
steps before, in linear-backward and in relu-and-its-corner.
"""

import numpy as np


def backward(x, h, w1, w2, d_y):
    """Return d_x, d_w1, d_b1, d_w2 and d_b2, each in its array's shape."""
    # [solution
    # y = h w2 + b2
    d_h = d_y @ w2.T
    d_w2 = np.einsum("btf,btd->fd", h, d_y)
    d_b2 = d_y.sum(axis=(0, 1))
    # h = max(0, a)
    d_a = np.where(h > 0, d_h, 0.0)
    # a = x w1 + b1
    d_x = d_a @ w1.T
    d_w1 = np.einsum("btd,btf->df", x, d_a)
    d_b1 = d_a.sum(axis=(0, 1))
    return d_x, d_w1, d_b1, d_w2, d_b2
    # solution] in the exercise:
    #: # TODO
    #: return ..., ..., ..., ..., ...
