"""Greedy decoding: always the most probable token.

A trained decoder writes one token after another. It sees the tokens so far,
START first, and gives each of the V tokens a score for being next. The one with
the highest score is written. If it is END, the sentence is complete.

END is not part of the sentence. A model may never write END, so stop after
max_length steps.
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
