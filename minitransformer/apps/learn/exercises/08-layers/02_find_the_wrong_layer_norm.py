"""One of these is not layer norm: show it.

Layer norm without gain and bias is, for each row x of D features,

    (x - mean(x)) / sqrt(var(x) + eps)

where var is the mean of the squares of x - mean(x). Below are five versions.
Four are the same function, for every x and every eps > 0. (One of these loses
digits where x is far from 0; that does not count as wrong.)

Give the letter of the one that is another function, and x (T, D) and eps on
which it is off by more than one per cent. T and D are up to 8.
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
    """With numerator and denominator times the root of D."""
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


def counterexample():
    """Return the letter of the wrong one, and x and eps that show it."""
    # [solution
    # eps is added to the standard deviation, not to the variance
    return "b", np.array([[1.0, 2.0, 4.0]]), 0.5
    # solution] in the exercise:
    #: # TODO: "a", "b", "c", "d" or "e", an array and a number
    #: return ..., ..., ...
