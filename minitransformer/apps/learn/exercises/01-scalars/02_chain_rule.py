"""A function of a function.

y = sin(x * x). Write it in two steps, as a graph does:

    u = x * x
    y = sin(u)

and go back through them in reverse order: first d_u from d_y, then d_x from
d_u.
"""

from math import cos


def backward(x, d_y):
    """Return d_x."""
    u = x * x
    # y = sin(u), and the derivative of sin is cos
    d_u = d_y * cos(u)
    # u = x * x
    # [solution
    d_x = d_u * 2 * x
    # solution] in the exercise:
    #: d_x = ...  # TODO
    return d_x
