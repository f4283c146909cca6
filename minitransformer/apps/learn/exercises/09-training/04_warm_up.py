"""The learning rate schedule: warm-up, then decay.

The paper's learning rate rises linearly during the warm-up, then falls with the
inverse square root of the step (section 5.3):

    lr = d_model^(-1/2) * min(step^(-1/2), step * warmup_steps^(-3/2))

The first step is number 1. The two curves meet at step = warmup_steps, where
the rate is highest.
"""


def learning_rate(step, d_model, warmup_steps):
    """Return lr, a number."""
    # [solution
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    # solution] in the exercise:
    #: # TODO
    #: return ...
