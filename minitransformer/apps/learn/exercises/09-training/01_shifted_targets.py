"""Shifted targets: the input of the decoder.

In training the decoder gets the whole target sentence at once. At each position
it has to predict the next token. So its input is the sentence shifted by one:
START first, then all wanted tokens but the last.

    it has to say    a      b   c   END
    it sees          START  a   b   c

wanted holds the tokens to predict, for B sentences, each followed by END and
then padding. (In a shorter sentence END becomes part of the input. That is
harmless: the wanted token there is padding, and does not count.)
"""

import numpy as np

START = 1


def seen(wanted):
    """Return the decoder's input (B, T), for wanted (B, T)."""
    # [solution
    start = np.full((len(wanted), 1), START)
    return np.concatenate((start, wanted[:, :-1]), axis=1)
    # solution] in the exercise:
    #: # TODO (np.full and np.concatenate may help)
    #: return ...
