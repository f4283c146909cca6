"""Sinusoidal positions.

Attention does not see the order of its inputs. So a pattern that encodes the
position is added to each embedding. For position pos and pair i (section 3.5):

    PE(pos, 2i)     = sin(pos / 10000^(2i/D))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i/D))

The even features are sines, the odd ones cosines; the sine and the cosine of a
pair have the same angle. D is even here.
"""

import numpy as np


def positions(length, d_model):
    """Return PE (T, D), for positions 0 to T - 1, T = length, D = d_model."""
    pos = np.arange(length)[:, None]  # (T, 1)
    two_i = np.arange(0, d_model, 2)  # (D/2,), the 2i of the formula
    encoding = np.empty((length, d_model))
    # [solution
    angle = pos / 10000.0 ** (two_i / d_model)  # (T, D/2)
    encoding[:, 0::2] = np.sin(angle)
    encoding[:, 1::2] = np.cos(angle)
    return encoding
    # solution] in the exercise:
    #: # TODO: the angles, then encoding[:, 0::2] and encoding[:, 1::2]
    #: return ...
