"""A backward pass for any graph.

A forward pass on numbers has been recorded step by step, in the order in which
it ran. Each step is

    (output, inputs, slopes)

The inputs are names, and slopes has for each input the local derivative of the
output with respect to it: u = x * y at x = 3, y = 2 is
("u", ("x", "y"), (2.0, 3.0)). The output of the last step is the loss.

Write the backward pass. A step may use a name twice, and an output may be
unused.
"""


def backward(steps, d_loss):
    """Return d: the gradient of the loss with respect to every name."""
    d = {}
    for output, inputs, _ in steps:
        for name in (output, *inputs):
            d[name] = 0.0
    d[steps[-1][0]] = d_loss
    # [solution
    for output, inputs, slopes in reversed(steps):
        for name, slope in zip(inputs, slopes, strict=True):
            d[name] += d[output] * slope
    # solution] in the exercise:
    #: # TODO: which step comes first? what does it add to what?
    #: d = ...
    return d
