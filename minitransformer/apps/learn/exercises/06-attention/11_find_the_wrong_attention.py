"""One line of this backward pass is wrong: show it.

It is self-attention of T positions: q, k and v are (T, D), the weights w and
the scores s are (T, T). So a wrong line still has the right shape, and the
program runs.

einsum names the axes: "ic,jc->ij" is the sum over c of the first array's entry
[i, c] times the second one's [j, c]. In each line i should be a query, j a key,
c a feature.

Give the letter of the wrong line, and q, k, v and d_y on which its result is
off by more than one per cent. Choose T and D, up to 8. Some inputs hide the
mistake.
"""

import numpy as np


def weights(q, k):
    """Return w, the softmax of the scores."""
    e = np.exp(np.einsum("ic,jc->ij", q, k) / q.shape[-1] ** 0.5)
    return e / e.sum(axis=-1, keepdims=True)


def backward(q, k, v, w, d_y):
    """Return the results of the five lines; y is w @ v."""
    root = q.shape[-1] ** 0.5
    d_w = np.einsum("ic,jc->ij", d_y, v)  # a
    d_v = np.einsum("ij,ic->jc", w, d_y)  # b
    d_s = w * (d_w - np.einsum("ij,ij->i", d_w, w)[:, None])  # c
    d_q = np.einsum("ji,jc->ic", d_s, k) / root  # d
    d_k = np.einsum("ij,ic->jc", d_s, q) / root  # e
    return d_w, d_v, d_s, d_q, d_k


def counterexample():
    """Return the letter of the wrong line, and q, k, v and d_y that show it."""
    # [solution
    # it takes d_s[j, i], the transpose; it should be "ij,jc->ic"
    q, k, v, d_y = np.random.default_rng(0).normal(size=(4, 3, 2))
    return "d", q, k, v, d_y
    # solution] in the exercise:
    #: # TODO: "a", "b", "c", "d" or "e", and four arrays
    #: return ..., ..., ..., ..., ...
