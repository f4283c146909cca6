"""One step of beam search.

Beam search keeps several hypotheses: W beginnings of the sentence.
log_p (W,) holds the log-probability of each. Each is continued with each of the
V tokens; next_log_p (W, V) holds the log-probabilities of these tokens. The
probability of a continuation is a product, so its logarithm is a sum.

Of all W * V continuations together the K best are kept, the best one first.
They may all come from the same hypothesis.
"""

import numpy as np


def step(log_p, next_log_p, beam):
    """Return parents, tokens and log-probabilities, each (K,), with K = beam.

    A parent is the index of the continued hypothesis, from 0 to W - 1.
    """
    totals = log_p[:, None] + next_log_p  # (W, V)
    # [solution
    best = np.argsort(-totals, axis=None)[:beam]  # places in totals.reshape(-1)
    parents, tokens = np.divmod(best, totals.shape[1])
    return parents, tokens, totals[parents, tokens]
    # solution] in the exercise:
    #: # TODO: np.argsort(..., axis=None) sorts all entries, np.divmod helps then
    #: return ..., ..., ...
