"""The logarithm of a sum of exponentials.

    s = log sum_j exp(x_j)

It is the logarithm of the softmax's denominator, so

    log y_i = x_i - s

which is how losses compute log-probabilities: the logarithm of a weight that
was rounded to 0 would be -inf.

For large scores exp overflows here as it does in the softmax. Subtract the
largest score m of each row before exp. This time that changes the result:
find out how to correct it afterwards.
"""

import numpy as np


def log_sum_exp(x):
    """Return s (...), one number for each row of x (..., V)."""
    largest = x.max(axis=-1)  # (...)
    total = np.exp(x - largest[..., None]).sum(axis=-1)  # (...)
    # [solution
    return np.log(total) + largest
    # solution] in the exercise:
    #: # TODO
    #: return ...
