"""The causal mask.

A decoder that learns to predict the next token must not see it. So query i may
attend to the keys 0, 1, ..., i: to its own position and those before it.

A mask is a boolean array: entry [i, j] is True where query i may attend to key
j, and False where it may not.
"""

import numpy as np


def causal_mask(n):
    """Return the mask (n, n)."""
    positions = np.arange(n)
    # [solution
    return positions[:, None] >= positions
    # solution] in the exercise:
    #: # TODO: compare positions as queries (n, 1) with positions as keys (n,)
    #: return ...
