"""One of these backward passes is wrong: show it.

Each pair is a function of two arrays and its claimed gradients. x is (T, D), w
is (D, D), y and d_y are (T, D). All shapes are right, but in one pair the
numbers are wrong.

Move an entry of x or w by a little, and see how much (d_y * y).sum() changes.
Give the letter of the wrong pair, and x, w and d_y on which it is off by more
than one per cent. Choose T and D, up to 8. Some inputs hide the mistake.
"""

import numpy as np

PAIRS = {
    "a": (
        lambda x, w: x @ w.T,
        lambda x, w, d_y: (d_y @ w, d_y.T @ x),
    ),
    "b": (  # each row of d_w is the same, here and in e
        lambda x, w: x * w.sum(axis=0),
        lambda x, w, d_y: (d_y * w.sum(axis=0), 0 * w + (d_y * x).sum(axis=0)),
    ),
    "c": (
        lambda x, w: x - x @ w,
        lambda x, w, d_y: (d_y - d_y @ w, -x.T @ d_y),
    ),
    "d": (
        lambda x, w: x * x @ w,
        lambda x, w, d_y: (2 * x * (d_y @ w.T), (x * x).T @ d_y),
    ),
    "e": (
        lambda x, w: x - w.mean(axis=0),
        lambda x, w, d_y: (d_y, 0 * w - d_y.sum(axis=0) / len(w)),
    ),
}


def counterexample():
    """Return the letter of the wrong pair, and x, w and d_y that show it."""
    # [solution
    # d_x should be d_y - d_y @ w.T; w is square, so w has the right shape too
    rng = np.random.default_rng(0)
    x, w, d_y = (rng.normal(size=shape) for shape in ((2, 3), (3, 3), (2, 3)))
    return "c", x, w, d_y
    # solution] in the exercise:
    #: # TODO: "a", "b", "c", "d" or "e", and three arrays
    #: return ..., ..., ..., ...
