"""The padding mask.

Sentences of a batch are padded to one length with token 0. No query of any head
may attend to padding. So the mask needs an entry for each sentence and each
key; it is the same for all heads and queries.

The scores of the whole batch are (B, H, Tq, Tk). The mask has the shape
(B, 1, 1, Tk): broadcasting repeats it for all heads and all queries. It is
boolean: True = may attend.
"""

import numpy as np


def padding_mask(ids):
    """Return the mask (B, 1, 1, Tk) for the tokens ids (B, Tk)."""
    # [solution
    return (ids != 0)[:, None, None, :]
    # solution] in the exercise:
    #: # TODO
    #: return ...
