"""Faster, with the same result to the last bit.

slow is right, but it runs Python code for each entry. Write fast with array
operations, at least ten times as fast on large arrays.

Every number must be the same to its last bit. Rounding depends on the order of
the steps: (a * b) * c and a * (b * c) may differ, and so may sums in another
order. sum(axis=0) of an array adds one row after another, as slow does.
"""

import numpy as np


def slow(x, mean, r, gain, d_y):
    """Return d_x and d_gain of y = gain * ((x - mean) * r), for given mean, r.

    x and d_y (T, D), mean and r (T,), gain (D,).
    """
    T, D = x.shape
    d_x, d_gain = np.zeros((T, D)), np.zeros(D)
    for t in range(T):
        for j in range(D):
            d_x[t, j] = d_y[t, j] * gain[j] * r[t]
            d_gain[j] += d_y[t, j] * ((x[t, j] - mean[t]) * r[t])
    return d_x, d_gain


def fast(x, mean, r, gain, d_y):
    """Return what slow returns."""
    # [solution
    d_x = d_y * gain * r[:, None]
    d_gain = (d_y * ((x - mean[:, None]) * r[:, None])).sum(axis=0)
    return d_x, d_gain
    # solution] in the exercise:
    #: # TODO: no loop
    #: return ..., ...
