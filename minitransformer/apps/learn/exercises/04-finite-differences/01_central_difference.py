"""A derivative by finite differences.

The forward difference moves x to one side:

    (f(x + h) - f(x)) / h  =  f'(x) + h f''(x) / 2 + ...

It is off by about h. The central difference moves x by h to both sides. In
Taylor's formula for f(x + h) and f(x - h) the terms with even powers of h are
the same, and cancel; so it is off by about h * h only. How far are its two
points apart?
"""


def central(f, x, h):
    """Return the central difference of f at the number x."""
    # [solution
    return (f(x + h) - f(x - h)) / (2 * h)
    # solution] in the exercise:
    #: # TODO
    #: return ...
