"""The walk back: a backward pass for every graph.

A forward pass of numbers has been written down, step by step, in the order in
which it ran. Each step is

    (output, inputs, slopes)

that is a name, names, and for each input the local derivative of the output by
it: u = x * y at x = 3, y = 2 is ("u", ("x", "y"), (2.0, 3.0)). The output of
the last step is the loss.

Write the walk. A step may use a name twice, and may lead nowhere.
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
