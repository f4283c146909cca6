"""The backward pass of grouped heads.

In grouped-query attention, H heads of queries share G heads of keys and values,
H / G neighbours each. With H = 4 and G = 2, the heads 0 and 1 of the queries
use head 0 of the keys and values, the heads 2 and 3 use head 1:

    k_h = head h // (H / G) of k        v_h = head h // (H / G) of v
    o_h = attention(q_h, k_h, v_h)      for h = 0 ... H - 1

Attention's backward pass gives three gradients for each h. They are below, for
all heads: d_q_h (B, H, Tq, Dk), d_k_h (B, H, Tk, Dk) and d_v_h (B, H, Tk, Dv).
What are the gradients of q, k and v?
"""

import numpy as np


def backward(d_q_h, d_k_h, d_v_h, n_kv_heads):
    """Return d_q (B, H, Tq, Dk), d_k (B, G, Tk, Dk) and d_v (B, G, Tk, Dv)."""
    # [solution
    b, h, t, _ = d_k_h.shape
    groups = b, n_kv_heads, h // n_kv_heads, t, -1
    d_k, d_v = (d.reshape(groups).sum(axis=2) for d in (d_k_h, d_v_h))
    return d_q_h, d_k, d_v
    # solution] in the exercise:
    #: # TODO: G is n_kv_heads
    #: return ..., ..., ...
