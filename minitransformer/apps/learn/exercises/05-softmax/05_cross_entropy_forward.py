"""The forward pass of the cross-entropy.

    p = softmax(logits)                                   (N, V)
    loss = mean over the rows of -sum_v q_v log p_v       one number

q (N, V) is the target distribution of each row: 1 at the target and 0
elsewhere, or any other row of shares whose sum is 1.

Logits may be large. If a row has the logits 0 and 1000, the first p underflows
to 0, and its logarithm is -inf. Yet log p is only -1000. So do not compute p.
Take the logarithm of the formula first:

    log p_v = x_v - s        with s = log sum_u exp(x_u), as in log-sum-exp
"""

import numpy as np


def loss(logits, q):
    """Return the loss, one number, for logits (N, V) and q (N, V)."""
    # [solution
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)  # (N, 1)
    log_p = shifted - np.log(total)  # (N, V)
    return -(q * log_p).sum(axis=-1).mean()
    # solution] in the exercise:
    #: # TODO: log_p (N, V), then the loss
    #: return ...
