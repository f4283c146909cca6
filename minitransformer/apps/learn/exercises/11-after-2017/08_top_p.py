"""Top-p sampling: which tokens may be written.

A language model gives each of the V tokens a probability to be the next one.
Each of thousands of tokens is improbable, but together they are not. A model
that draws from all of them writes one of these now and then, and the text
derails.

Top-p sampling, or nucleus sampling, keeps the most probable tokens: as few as
possible, so that their probabilities sum to at least top_p. All others get
probability 0, and the rest is divided by its sum. Then one token is drawn.

The most probable token is always kept, even if it alone exceeds top_p.
"""

import numpy as np


def nucleus(p, top_p):
    """Return the new probabilities (V,), for probabilities p (V,)."""
    # [solution
    order = np.argsort(-p)  # the most probable first
    n = 1 + np.searchsorted(np.cumsum(p[order]), top_p)
    kept = np.zeros_like(p)
    kept[order[:n]] = p[order[:n]]
    return kept / kept.sum()
    # solution] in the exercise:
    #: # TODO (np.argsort and np.cumsum may help)
    #: return ...
