"""The product rule.

A graph computes z = x * y, with numbers x, y and z. The rest of the graph
computes a loss L from z and gives you d_z = dL/dz: how fast L grows with z.

How fast does L grow with x, and how fast with y? By the chain rule

    d_x = d_z * dz/dx        d_y = d_z * dz/dy
"""


def backward(x, y, d_z):
    """Return d_x and d_y."""
    # [solution
    return d_z * y, d_z * x
    # solution] in the exercise:
    #: # TODO: two numbers
    #: return ..., ...
