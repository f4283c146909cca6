"""Write a gradient checker.

Your checker must accept right gradients and reject wrong ones. Among them are
tiny gradients and large ones, gradients that are 0, a NaN, a wrong shape, one
entry that is off by one per cent, and wrong entries that are small beside the
others.

measured has about seven correct digits. Where the gradient is 0, its rounding
error is about 1e-16 / h times the sum of all abs(d_y * y). Accept such an
error: divide it by the tolerance, and use the quotient as the floor.
"""

import numpy as np


def measured(f, x, d_y, h=1e-5):
    """Return the gradient of (d_y * f(x)).sum() by central differences."""
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        d_x[index] = (d_y * (f(x + step) - f(x - step))).sum() / (2 * h)
    return d_x


def check(forward, backward, x):
    """Return True if backward(x, d_y) is the gradient of forward(x), or False.

    forward returns an array of any shape, and d_y has the same.
    """
    y = forward(x)
    # [solution
    d_y = np.random.default_rng(0).normal(size=y.shape)
    a, n = backward(x, d_y), measured(forward, x, d_y)
    if a.shape != x.shape:
        return False
    tolerance = 1e-5
    floor = 1e-10 * np.abs(d_y * y).sum() / tolerance
    scale = np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)
    return bool((np.abs(a - n) <= tolerance * scale).all())
    # solution] in the exercise:
    #: # TODO: which d_y? which shape? how close is close enough?
    #: return ...
