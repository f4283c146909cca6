"""Label smoothing: the target distribution.

Without smoothing the target distribution q of a row is 1 at the target and 0 at
all other tokens: the model can only reach it with infinite logits. The paper
(section 5.4) takes a share epsilon of that 1 and spreads it evenly over all V
tokens of the vocabulary, including the target:

    q_v = (1 - epsilon) [v = t] + epsilon / V

where [v = t] is 1 if v is the target t, else 0. A row of q sums to 1.
"""

import numpy as np


def wanted(targets, n_tokens, epsilon):
    """Return q (N, V) for targets (N,) and V = n_tokens."""
    rows = np.arange(len(targets))
    # [solution
    q = np.full((len(targets), n_tokens), epsilon / n_tokens)
    q[rows, targets] += 1 - epsilon
    # solution] in the exercise:
    #: q = ...  # TODO, in one line or more
    return q
