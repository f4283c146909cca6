"""Long sentences are not to blame for their length.

The log-probability of a sentence is a sum of negative numbers: with each token
it falls. So a search that compares log-probabilities likes sentences that are
too short. The paper (section 6.1) compares with the length penalty of Wu et al.
(2016):

    score = log_p / ((5 + length) / 6)^alpha        alpha = 0.6

where length counts the tokens that were written, END among them. With alpha = 0
it is log_p itself.
"""

import numpy as np


def best(log_p, length, alpha):
    """Return the scores (n,), and the number of the best of n sentences.

    log_p and length are (n,); the number is from 0 to n - 1.
    """
    # [solution
    scores = log_p / ((5 + length) / 6) ** alpha
    return scores, int(np.argmax(scores))
    # solution] in the exercise:
    #: # TODO
    #: return ..., ...
