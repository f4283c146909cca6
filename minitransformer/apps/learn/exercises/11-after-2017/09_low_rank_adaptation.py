"""Low-rank adaptation (LoRA): both passes of a layer whose matrix is fixed.

To train a published model on, its matrices w (D, F) stay as they are. Beside
each stands the product of two small ones, a (D, r) and b (r, F), and only these
two are trained:

    z = alpha / r * x a        z is (B, T, r)
    y = x w + z b              y is (B, T, F)

r is far below D and F. All B * T rows of x (B, T, D) share w, a and b. Which
gradients are needed, if w is fixed?
"""

import numpy as np


def both_passes(x, w, a, b, alpha, d_y):
    """Return y (B, T, F), d_x (B, T, D), d_a (D, r) and d_b (r, F)."""
    # [solution
    (D, r), F = a.shape, b.shape[1]
    scale = alpha / r
    z = scale * (x @ a)
    y = x @ w + z @ b
    d_z = d_y @ b.T
    d_x = d_y @ w.T + scale * (d_z @ a.T)
    d_a = scale * (x.reshape(-1, D).T @ d_z.reshape(-1, r))
    d_b = z.reshape(-1, r).T @ d_y.reshape(-1, F)
    return y, d_x, d_a, d_b
    # solution] in the exercise:
    #: # TODO
    #: return ..., ..., ..., ...
