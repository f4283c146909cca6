"""Padding is hidden.

Sentences of a batch are filled up to one length with padding, token 0. No query
of any head may attend to it. So the mask needs an entry for each sentence and
each key; heads and queries make no difference.

The scores of the whole batch are (B, H, Tq, Tk). The mask has the shape
(B, 1, 1, Tk): broadcasting repeats it for all heads and all queries. It is
boolean, and True where a key may be attended to.
"""

import numpy as np


def padding_mask(ids):
    """Return the mask (B, 1, 1, Tk) for the tokens ids (B, Tk)."""
    # [solution
    return (ids != 0)[:, None, None, :]
    # solution] in the exercise:
    #: # TODO
    #: return ...
