"""The backward pass of self-attention: one array, used three times.

In self-attention queries, keys and values are computed from the same x:

    q = x W_q        k = x W_k        v = x W_v

x is (T, D), W_q and W_k are (D, Dk), W_v is (D, Dv). Attention's backward pass
has returned d_q, d_k (T, Dk) and d_v (T, Dv).

What is d_x? When x grows by a little, all three change, and the loss changes by
the sum of what each of them does.
"""

import numpy as np


def backward(w_q, w_k, w_v, d_q, d_k, d_v):
    """Return d_x (T, D)."""
    # [solution
    return d_q @ w_q.T + d_k @ w_k.T + d_v @ w_v.T
    # solution] in the exercise:
    #: # TODO
    #: return ...
