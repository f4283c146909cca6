"""The gradient of the cross-entropy for any target distribution.

Now the target of a row is not one token but a distribution q over all V tokens,
as in label smoothing:

    p = softmax(logits)                                   (N, V)
    loss = mean over the rows of -sum_v q_v log p_v       one number

Put log p_v = x_v - s into the loss of one row, with s = log sum_u exp(x_u):

    -sum_v q_v (x_v - s) = s sum_v q_v - sum_v q_v x_v

What is sum_v q_v? And what, then, is the derivative with respect to x_v?
Compare it with cross-entropy-backward, where q was 1 in one place.
"""

import numpy as np


def softmax(x):
    """Return the softmax of x along its last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def backward(logits, q, d_loss):
    """Return d_logits (N, V), for q (N, V) and a number d_loss."""
    # [solution
    return (softmax(logits) - q) * d_loss / len(q)
    # solution] in the exercise:
    #: # TODO
    #: return ...
