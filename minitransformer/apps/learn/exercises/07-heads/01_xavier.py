"""Xavier initialisation: the scale of initial weights.

Let the entries of W (n_in, n_out) be random, with mean 0 and variance s^2. Then
an entry of x W has n_in s^2 times the variance of an entry of x. On the way
back an entry of d_y W^T has n_out s^2 times the variance of one of d_y. Both
factors should be about 1, otherwise numbers grow or shrink from layer to layer.
Glorot and Bengio take the mean of n_in and n_out:

    s^2 = 2 / (n_in + n_out)

A number that is uniform between -a and a has the variance a^2 / 3. So

    W_ij uniform between -a and a, with a = sqrt(6 / (n_in + n_out))

This is called Xavier initialisation, after Xavier Glorot.
"""

import numpy as np


def draw(rng, n_in, n_out):
    """Return W (n_in, n_out), drawn with rng.uniform.

    rng is a generator such as np.random.default_rng(0). Draw the whole matrix
    at once, so that the same seed always gives the same matrix.
    """
    # [solution
    limit = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, (n_in, n_out))
    # solution] in the exercise:
    #: # TODO
    #: return ...
