"""The backward pass of a whole encoder layer, without help.

    q, k, v = the heads of x w_q, x w_k and x w_v        (B, H, T, Dk)
    scores  = q k^T / sqrt(Dk)                           (B, H, T, T)
    weights = softmax(scores), 0 where a key is hidden   (B, H, T, T)
    c       = the heads of weights v, side by side       (B, T, H * Dk)
    s1      = x + c w_o                                  (B, T, D)
    u       = gain1 * x_hat1 + bias1                     (B, T, D)
              x_hat1 = r1 * (s1 - mean(s1)), r1 = 1 / sqrt(var + eps)
    a       = u w1 + b1                                  (B, T, F)
    h       = max(0, a)                                  (B, T, F)
    s2      = u + h w2 + b2                              (B, T, D)
    y       = gain2 * x_hat2 + bias2                     (B, T, D)
              x_hat2 and r2 of s2, as above

backward gets two dicts. p has the parameters:

    w_q, w_k, w_v, w_o, gain1, bias1, w1, b1, w2, b2, gain2, bias2

kept has the values saved by the forward pass; r1 and r2 are (B, T, 1):

    x, q, k, v, weights, c, x_hat1, r1, u, h, x_hat2, r2

Return a dict with the gradients of all parameters and of x. They are checked in
this order, the order in which they can be computed:

    d_gain2, d_bias2, d_w2, d_b2, d_w1, d_b1, d_gain1, d_bias1, d_w_o,
    d_w_q, d_w_k, d_w_v, d_x

You may return these as well; they are checked in order, so that you see where a
mistake begins:

    d_s2, d_h, d_a, d_u, d_s1, d_c, d_weights, d_v, d_scores, d_q, d_k

d_u and d_x are the sums of all shares. You can check an incomplete dict at any
time: wrong gradients are reported first, then missing ones.
"""

import numpy as np


def backward(p, kept, d_y):
    """Return a dict of gradients, for d_y (B, T, D)."""
    d = {}
    # [solution

    def norm(d_y, number):
        x_hat, r = kept[f"x_hat{number}"], kept[f"r{number}"]
        d[f"d_gain{number}"] = (d_y * x_hat).sum(axis=(0, 1))
        d[f"d_bias{number}"] = d_y.sum(axis=(0, 1))
        d_x_hat = d_y * p[f"gain{number}"]
        mean = d_x_hat.mean(axis=-1, keepdims=True)
        along = (d_x_hat * x_hat).mean(axis=-1, keepdims=True)
        return r * (d_x_hat - mean - x_hat * along)

    def product(x, w, d_y):
        """Return the gradients of x and w in y = x w."""
        return d_y @ p[w].T, np.einsum("bti,btj->ij", x, d_y)

    def turn(a):
        return a.swapaxes(-1, -2)

    b, t, _ = d_y.shape
    n_heads, dk = kept["q"].shape[1], kept["q"].shape[-1]
    # y = norm(s2), s2 = u + h w2 + b2, h = max(0, a), a = u w1 + b1
    d_s2 = norm(d_y, 2)
    d_h, d["d_w2"] = product(kept["h"], "w2", d_s2)
    d["d_b2"] = d_s2.sum(axis=(0, 1))
    d_a = d_h * (kept["h"] > 0)
    inside, d["d_w1"] = product(kept["u"], "w1", d_a)
    d["d_b1"] = d_a.sum(axis=(0, 1))
    # u = norm(s1), s1 = x + c w_o; u is used twice
    d_u = inside + d_s2
    d_s1 = norm(d_u, 1)
    d_c, d["d_w_o"] = product(kept["c"], "w_o", d_s1)
    # c = weights v, weights = softmax(scores), scores = q k^T / sqrt(Dk)
    d_heads = d_c.reshape(b, t, n_heads, dk).swapaxes(1, 2)
    d_weights = d_heads @ turn(kept["v"])
    row_sum = (d_weights * kept["weights"]).sum(axis=-1, keepdims=True)
    d_scores = kept["weights"] * (d_weights - row_sum)
    d_scaled = d_scores / np.sqrt(dk)
    d_q = d_scaled @ kept["k"]
    d_k = turn(d_scaled) @ kept["q"]
    d_v = turn(kept["weights"]) @ d_heads
    # q, k and v are made of x, which is used four times
    d["d_x"] = d_s1
    for name, d_z in (("w_q", d_q), ("w_k", d_k), ("w_v", d_v)):
        d_z = d_z.swapaxes(1, 2).reshape(b, t, n_heads * dk)
        share, d[f"d_{name}"] = product(kept["x"], name, d_z)
        d["d_x"] = d["d_x"] + share
    # solution] in the exercise:
    #: # TODO: d["d_gain2"] = ... and so on
    return d
