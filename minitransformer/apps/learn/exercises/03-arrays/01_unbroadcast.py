"""The gradient of a broadcast array is a sum.

In y = a + x NumPy repeats a until it has the shape of y. It does that in two
ways, comparing shapes from the right:

    missing axes are put in front       (4,)       ->  (2, 3, 4)
    axes of length 1 are stretched      (2, 1, 4)  ->  (2, 3, 4)
    or both                             (3, 1)     ->  (2, 3, 4)

Each copy of an entry has its own gradient in d_y. The entry's own gradient is
the sum over its copies. Write it for every shape that a may have, also for ().
"""

import numpy as np


def unbroadcast(d_y, shape):
    """Return d_a, which has the shape of a."""
    # [solution
    d = d_y.sum(axis=tuple(range(d_y.ndim - len(shape))))
    stretched = tuple(axis for axis, n in enumerate(shape) if n == 1)
    return d.sum(axis=stretched, keepdims=True)
    # solution] in the exercise:
    #: # TODO: the axes in front first, then those of length 1
    #: return ...
