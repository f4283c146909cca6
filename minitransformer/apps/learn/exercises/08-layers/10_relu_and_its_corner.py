"""relu(x) = max(x, 0): a function with a corner.

Left of 0 it is flat, right of 0 it is x itself. At 0 it has no derivative; any
slope between those of the two sides will do, and by convention it is 0.

Work on arrays here: x and d_y have the same shape, and so has the result.
"""

import numpy as np


def backward(x, d_y):
    """Return d_x, the shape of x."""
    # [solution
    return np.where(x > 0, d_y, 0.0)
    # solution] in the exercise:
    #: # TODO (np.where may help)
    #: return ...
