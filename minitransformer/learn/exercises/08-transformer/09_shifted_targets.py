"""What the decoder sees, and what it has to say.

In training the decoder gets the whole target sentence at once. At each position
it has to say the next token. So it sees the sentence shifted by one: START
first, then what came before each wanted token.

    it has to say    a      b   c   END
    it sees          START  a   b   c

wanted holds the tokens that it has to say, for B sentences, each ended by END
and then padded. (In a shorter sentence END moves into what is seen. That does
no harm: there the wanted token is padding, and does not count.)
"""

import numpy as np

START = 1


def seen(wanted):
    """Return what the decoder sees (B, T), for wanted (B, T)."""
    # [solution
    start = np.full((len(wanted), 1), START)
    return np.concatenate((start, wanted[:, :-1]), axis=1)
    # solution] in the exercise:
    #: # TODO (np.full and np.concatenate may help)
    #: return ...
