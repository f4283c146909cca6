"""The residual connection around a sub-layer.

In the paper (section 3.1) each sub-layer, such as attention or feed-forward, is
surrounded by a shortcut and a layer norm: its output is added to its input, and
the sum is normalised.

Later models put the norm elsewhere (pre-norm). Here it is post-norm, as in the
paper: the norm comes last.
"""

import numpy as np


def surrounded(x, sublayer, norm):
    """Return the output (T, D) for x (T, D).

    sublayer and norm are functions of one array (T, D), and return one.
    """
    # [solution
    return norm(x + sublayer(x))
    # solution] in the exercise:
    #: # TODO
    #: return ...
