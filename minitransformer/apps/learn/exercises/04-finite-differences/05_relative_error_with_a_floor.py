"""The relative error of a gradient, with a floor.

a is what a backward pass claims, n is what was measured, in the same shape. An
absolute difference of 1e-3 is large for a gradient of 1e-5, and small for one
of 1e5. So for each entry divide the difference by the larger of the two
absolute values.

Where the true gradient is 0, the measured one is rounding noise, and relative
to noise every difference is large. So never divide by less than floor.

Return the error of the worst entry: one number. If a or n has an entry that is
not finite, return np.inf: every comparison with NaN is False, so NaN may pass
for right.
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
