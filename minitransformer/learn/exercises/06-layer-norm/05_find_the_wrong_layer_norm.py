"""One of these is not layer norm.

Layer norm without gain and bias is, for each row x of D features,

    (x - mean(x)) / sqrt(var(x) + eps)

where var is the mean of the squares of x - mean(x). Five people have written
it. Four are the same function, for every x and every eps, though one of them
loses digits where x is far from 0: that is not what is meant. Which one is
another function? With usual numbers and eps = 1e-5 you may not see it.
"""

import numpy as np


def a(x, eps):
    """With NumPy's variance."""
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt(x.var(-1, keepdims=True) + eps)


def b(x, eps):
    """By hand."""
    c = x - x.mean(-1, keepdims=True)
    return c / (np.sqrt((c * c).mean(-1, keepdims=True)) + eps)


def c(x, eps):
    """Multiplied through by the root of D."""
    c = x - x.mean(-1, keepdims=True)
    d = x.shape[-1]
    return c * np.sqrt(d) / np.sqrt((c * c).sum(-1, keepdims=True) + d * eps)


def d(x, eps):
    """From the mean of the squares."""
    mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
    return (x - mean) * (square - mean * mean + eps) ** -0.5


def e(x, eps):
    """With a hypotenuse."""
    c = x - x.mean(-1, keepdims=True)
    return c / np.hypot(x.std(-1, keepdims=True), eps**0.5)


# [solution
WRONG = "b"  # eps is added to the standard deviation, not to the variance
# solution] in the exercise:
#: WRONG = ...  # TODO: "a", "b", "c", "d" or "e"
