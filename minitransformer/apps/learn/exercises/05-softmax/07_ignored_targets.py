"""Ignored targets: padding in the loss.

Sentences of a batch are padded to one length. A target that is padding, token
0, must not count: its row has no loss, and its gradient is exactly 0. The loss
is the mean over the rows that count.

If no row counts, the loss is 0, and so is every gradient.
"""

import numpy as np

PAD = 0


def softmax(x):
    """Return the softmax of x along its last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def backward(logits, targets, d_loss):
    """Return d_logits (N, V), for targets (N,) and a number d_loss."""
    rows = np.arange(len(targets))
    d_logits = softmax(logits)
    d_logits[rows, targets] -= 1
    counts = targets != PAD  # (N,), boolean
    # [solution
    n = max(counts.sum(), 1)
    return np.where(counts[:, None], d_logits * d_loss / n, 0.0)
    # solution] in the exercise:
    #: # TODO: which rows stay, and what is their number?
    #: return ...
