"""One of these derivatives is wrong: show it.

Each pair is a function and a claimed derivative. Exactly one derivative is
wrong. Give its letter, and a number x at which it differs from the difference
quotient by more than one per cent:

    (f(x + h) - f(x - h)) / (2 * h)        for a small h, such as 0.00001

Choose x with care: there is an x at which even the wrong one is right.
"""

from math import exp, log, sqrt

FUNCTIONS = {
    "a": (lambda x: x / (1 + x), lambda x: 1 / (1 + x) ** 2),
    "b": (lambda x: log(1 + exp(x)), lambda x: 1 / (1 + exp(-x))),
    "c": (lambda x: sqrt(x * x + 1), lambda x: 1 / (2 * sqrt(x * x + 1))),
    "d": (lambda x: exp(-x * x), lambda x: -2 * x * exp(-x * x)),
}


def counterexample():
    """Return the letter of the wrong derivative and an x that shows it."""
    # [solution
    # the inner derivative, 2 x, is missing: it should be x / sqrt(x x + 1)
    return "c", 2.0
    # solution] in the exercise:
    #: # TODO: "a", "b", "c" or "d", and a number
    #: return ..., ...
