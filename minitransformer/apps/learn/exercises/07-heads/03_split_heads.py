"""Split the heads: a head is a slice of the features.

Multi-head attention computes the queries of all H heads as one array (B, T, D),
with D = H * Dk. Head 0 has the first Dk features, head 1 the next Dk, and so
on. Attention needs the heads next to the batch: (B, H, T, Dk).

reshape splits an axis into two, or joins two adjacent ones; it never moves an
entry. Moving an axis is a second step.
"""

import numpy as np


def split(x, n_heads):
    """Return the heads (B, H, T, Dk) of x (B, T, D)."""
    b, t, d = x.shape
    # [solution
    return x.reshape(b, t, n_heads, d // n_heads).swapaxes(1, 2)
    # solution] in the exercise:
    #: # TODO
    #: return ...
