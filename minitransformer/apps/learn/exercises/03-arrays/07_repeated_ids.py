"""The gradient of an embedding table, with repeated ids.

An embedding looks up a row for each token:

    y[t] = table[ids[t]]

table has the shape (V, D). ids are whole numbers from 0 to V - 1, of shape (T,)
or (B, T), and y is (T, D) or (B, T, D). A word may occur many times in a
sentence; then its row is used many times.

Beware: with an array of ids, d_table[ids] += d_y adds once for each row, even
if its id occurs twice. np.add.at(a, ids, b) adds for every id.
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
