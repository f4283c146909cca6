"""The hyperbolic tangent, from what the forward pass has kept.

y = tanh(x) = (e^x - e^-x) / (e^x + e^-x). By the quotient rule

    dy/dx = 1 - tanh(x) * tanh(x)

The forward pass has computed y already. So nothing needs to be computed again:
write the gradient with y, without x and without any exponential.
"""


def backward(y, d_y):
    """Return d_x."""
    # [solution
    return d_y * (1 - y * y)
    # solution] in the exercise:
    #: # TODO
    #: return ...
