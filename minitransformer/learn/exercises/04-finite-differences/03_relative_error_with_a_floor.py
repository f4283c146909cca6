"""How far apart two gradients are.

a is what a backward pass claims, n is what was measured, in the same shape. An
absolute difference of 1e-3 is much for a gradient of 1e-5, and little for one
of 1e5. So for each entry take the difference relative to the larger of the two
numbers, both taken without their signs.

But where the true gradient is 0, a measurement is not: it is a little rounding
noise, and relative to that every difference is large. So never divide by less
than floor.

Return the error of the worst entry: one number. If a or n has an entry that is
not finite, return np.inf: a comparison with NaN is False, whichever way round,
and then NaN may pass for right.
"""

import numpy as np


def error(a, n, floor):
    """Return the largest relative error of all entries."""
    # [solution
    if not (np.isfinite(a).all() and np.isfinite(n).all()):
        return np.inf
    scale = np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)
    return (np.abs(a - n) / scale).max()
    # solution] in the exercise:
    #: # TODO
    #: return ...
