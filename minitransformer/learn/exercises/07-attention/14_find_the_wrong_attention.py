"""One line of this backward pass is wrong.

It is self-attention of T positions: q, k and v are (T, D), the weights w and
the scores s are (T, T). So a wrong line has a right shape, and the program
runs.

einsum names the axes: "ic,jc->ij" is the sum over c of the first array's entry
[i, c] times the second one's [j, c]. In what each line computes i should be a
query, j a key, c a feature. Which of the lines a to e is wrong?
"""

import numpy as np


def backward(q, k, v, w, d_y):
    """Return d_q, d_k and d_v."""
    root = q.shape[-1] ** 0.5
    d_w = np.einsum("ic,jc->ij", d_y, v)  # a
    d_v = np.einsum("ij,ic->jc", w, d_y)  # b
    d_s = w * (d_w - np.einsum("ij,ij->i", d_w, w)[:, None])  # c
    d_q = np.einsum("ji,jc->ic", d_s, k) / root  # d
    d_k = np.einsum("ij,ic->jc", d_s, q) / root  # e
    return d_q, d_k, d_v


# [solution
WRONG = "d"  # it takes d_s[j, i], the transpose; it should be "ij,jc->ic"
# solution] in the exercise:
#: WRONG = ...  # TODO: "a", "b", "c", "d" or "e"
