"""One of these is wrong.

Each pair is a function and what somebody believes to be its derivative. Exactly
one of them is wrong. Find out which, by thought or by trying it: a derivative
says by how much y changes when x changes by a little.
"""

from math import cos, exp, log, sin, sqrt  # for your own trying

FUNCTIONS = {
    "a": (lambda x: x / (1 + x), lambda x: 1 / (1 + x) ** 2),
    "b": (lambda x: log(1 + exp(x)), lambda x: 1 / (1 + exp(-x))),
    "c": (lambda x: sqrt(x * x + 1), lambda x: 1 / (2 * sqrt(x * x + 1))),
    "d": (lambda x: exp(-x * x), lambda x: -2 * x * exp(-x * x)),
}

# [solution
WRONG = "c"  # the inner derivative, 2 x, is missing: it should be x / sqrt(x x + 1)
# solution] in the exercise:
#: WRONG = ...  # TODO: "a", "b", "c" or "d"
