"""One of these is wrong.

Each pair is a function of two arrays, and what somebody believes to be the
gradients of both. All shapes are right. Find out which numbers are not: move
an entry of x or w by a little, and see how much (d_y * y).sum() changes.
"""

import numpy as np

rng = np.random.default_rng(0)  # for your own trying
T, D, F = 3, 4, 5

PAIRS = {
    "a": (  # x (T, D), w (T, 1)
        lambda x, w: x * w,
        lambda x, w, d_y: (d_y * w, (d_y * x).sum(axis=1, keepdims=True)),
    ),
    "b": (  # x (T, D), w (F, D)
        lambda x, w: x @ w.T,
        lambda x, w, d_y: (d_y @ w, d_y.T @ x),
    ),
    "c": (  # x (T, D), w (T, T)
        lambda x, w: w @ x,
        lambda x, w, d_y: (w @ d_y, d_y @ x.T),
    ),
    "d": (  # x (T, D), w (D,)
        lambda x, w: x @ w,
        lambda x, w, d_y: (np.outer(d_y, w), d_y @ x),
    ),
    "e": (  # x (T, D), w (D,)
        lambda x, w: x - w,
        lambda x, w, d_y: (d_y, -d_y.sum(axis=0)),
    ),
}

# [solution
WRONG = "c"  # d_x is w.T @ d_y; w is square, so w @ d_y has the right shape too
# solution] in the exercise:
#: WRONG = ...  # TODO: "a", "b", "c", "d" or "e"
