"""The gradient of an embedding table, with repeated ids.

An embedding looks up a row for each token:

    y[t] = table[ids[t]]

table has the shape (V, D), ids (T,) or (B, T), whole numbers from 0 to V - 1,
and y the shape of ids and then D. A word may occur many times in a sentence;
then its row is used many times.

Beware: with an array of ids, d_table[ids] += d_y adds once for each row, even
if the id is there twice. np.add.at(a, ids, b) adds for every id.
"""

import numpy as np


def backward(ids, V, d_y):
    """Return d_table, of shape (V, D)."""
    # [solution
    d_table = np.zeros((V, d_y.shape[-1]))
    np.add.at(d_table, ids, d_y)
    return d_table
    # solution] in the exercise:
    #: # TODO
    #: return ...
