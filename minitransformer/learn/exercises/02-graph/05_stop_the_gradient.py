"""Stop the gradient.

Sometimes a value shall count as given although it was computed: a target that
the model has made itself, or a state that comes from the batch before. In many
libraries `detach` does that. For the derivative it is then a constant.

This is the walk back, with the names to stop. A stopped name keeps the
gradient 0. All other names get what they would get if it were a number that
was given.
"""


def backward(steps, d_loss, stopped):
    """Return d; steps as in the walk back, stopped is a set of names."""
    d = {}
    for output, inputs, _ in steps:
        for name in (output, *inputs):
            d[name] = 0.0
    d[steps[-1][0]] = d_loss
    for output, inputs, slopes in reversed(steps):
        for name, slope in zip(inputs, slopes, strict=True):
            share = d[output] * slope
            # [solution
            if name not in stopped:
                d[name] += share
            # solution] in the exercise:
            #: # TODO: what does d[name] gain?
            #: d[name] += ...
    return d
