"""A directional derivative: a million entries, two evaluations.

Moving the entries of a large x one by one takes too long. Instead, move all of
them at once, along a direction p, an array with the shape of x:

    L(t) = sum over all i of d_y_i f(x + t p)_i

By the chain rule dL/dt at t = 0 is the sum of the shares of all entries of x,
each of which moves p_j times as fast as t. So a claimed gradient d_x claims a
slope along p, one number, and this slope can be measured by one central
difference. If a random p shows no difference, d_x is most likely right.
"""

import numpy as np


def slopes(f, x, d_y, d_x, p, h=1e-5):
    """Return two numbers: the slope that d_x claims, and the measured one."""
    # [solution
    claimed = (d_x * p).sum()
    measured = (d_y * (f(x + h * p) - f(x - h * p))).sum() / (2 * h)
    return claimed, measured
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
