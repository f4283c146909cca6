"""The gradient of the cross-entropy with respect to the logits.

N rows of V scores (the logits), and for each row the right token, its target t:

    p = softmax(logits)                     (N, V)
    loss = mean over the rows of -log p_t   one number

In one row -log p_t = s - x_t, with s the log-sum-exp of the row. The derivative
of s with respect to x_v is p_v. The derivative of x_t is 1 for v = t and 0 for
all others. Put both together; the loss is a mean over N rows, and d_loss is its
gradient.
"""

import numpy as np


def softmax(x):
    """Return the softmax of x along its last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def backward(logits, targets, d_loss):
    """Return d_logits (N, V), for targets (N,) and a number d_loss."""
    rows = np.arange(len(targets))
    d_logits = softmax(logits)  # (N, V)
    # [solution
    d_logits[rows, targets] -= 1
    return d_logits * d_loss / len(targets)
    # solution] in the exercise:
    #: # TODO: d_logits[rows, targets] is one entry of each row
    #: return ...
