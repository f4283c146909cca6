"""The length penalty: comparing sentences of different lengths.

The log-probability of a sentence is a sum of negative numbers: it falls with
each token. So a search that compares log-probabilities favours short sentences.
The paper (section 6.1) uses the length penalty of Wu et al. (2016):

    score = log_p / ((5 + length) / 6)^alpha        alpha = 0.6

where length is the number of written tokens, including END. With alpha = 0 the
score is log_p itself.
"""

import numpy as np


def best(log_p, length, alpha):
    """Return the scores (n,), and the index of the best of n sentences.

    log_p and length are (n,); the index is from 0 to n - 1.
    """
    # [solution
    scores = log_p / ((5 + length) / 6) ** alpha
    return scores, int(np.argmax(scores))
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
