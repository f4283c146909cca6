"""Merge the heads.

After attention every head has an output (T, Dv), all together (B, H, T, Dv).
Concat(head_0, ..., head_(H-1)) puts them side by side: (B, T, H * Dv), where
head 0 has the first Dv features, head 1 the next Dv, and so on.
"""

import numpy as np


def merge(heads):
    """Return (B, T, H * Dv) for heads (B, H, T, Dv)."""
    b, h, t, dv = heads.shape
    # [solution
    return heads.swapaxes(1, 2).reshape(b, t, h * dv)
    # solution] in the exercise:
    #: # TODO
    #: return ...
