"""Greedy decoding: always the best token.

A trained decoder writes one token after another. It sees what has been written
so far, START first, and gives each of the V tokens a score for being next. The
one with the highest score is written. When that is END, the sentence is over.

END is not a part of the sentence. A model that never says END has to be
stopped: there are max_length steps at most.
"""

import numpy as np

START, END = 1, 2


def greedy(next_scores, max_length):
    """Return the sentence, a list of tokens without START and END.

    next_scores(tokens) returns the scores (V,) of the token after tokens.
    """
    tokens = [START]
    for _ in range(max_length):
        scores = next_scores(tokens)  # (V,)
        # [solution
        token = int(np.argmax(scores))
        if token == END:
            break
        tokens.append(token)
        # solution] in the exercise:
        #: tokens.append(...)  # TODO, and END ends the sentence
    return tokens[1:]
