"""One step of Adam.

Adam keeps two running means for each parameter, of its gradient g and of the
squared gradient:

    m = beta1 m + (1 - beta1) g
    v = beta2 v + (1 - beta2) g^2

Both start at 0, so at first they are too small: after t steps the weights in
the mean add up to only 1 - beta^t. Divide by it, then update the parameter:

    m_hat = m / (1 - beta1^t)
    v_hat = v / (1 - beta2^t)
    theta = theta - lr * m_hat / (sqrt(v_hat) + eps)
"""

import numpy as np


def step(theta, g, m, v, t, lr, beta1, beta2, eps):
    """Return the new theta, m and v, in this order, at step t = 1, 2, ..."""
    # [solution
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v
    # solution] in the exercise:
    #: # TODO
    #: return ..., ..., ...
