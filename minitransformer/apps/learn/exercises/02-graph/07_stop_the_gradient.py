"""Stop the gradient.

Sometimes a computed value should be treated as a constant: a target that the
model computed itself, or a state from the previous batch. Many libraries call
this `detach`.

This is the backward pass of walk-back, with a set of names to stop. A stopped
name keeps the gradient 0. All other names get the gradient that they would have
if it were a constant.
"""


def backward(steps, d_loss, stopped):
    """Return d; steps are as in walk-back, stopped is a set of names."""
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
            #: # TODO: what is added to d[name]?
            #: d[name] += ...
    return d
