"""One merge of byte-pair encoding.

words says how often each word of a text occurs. The symbols of a word are
separated by spaces; at first they are its letters:

    {"g a t e": 5, "l a t e": 3, "p a t h": 2}

A merge takes the pair of neighbouring symbols that occurs most often in the
text, here a t (5 + 3 + 2 = 10 times), and joins it wherever it occurs, from
left to right:

    {"g at e": 5, "l at e": 3, "p at h": 2}

If several pairs occur equally often, take the largest: Python compares tuples
of text in alphabetical order.
"""


def merge(words):
    """Return the pair, a tuple of two symbols, and the new words."""
    # [solution
    counts = {}
    for word, times in words.items():
        symbols = word.split()
        for i in range(len(symbols) - 1):
            pair = symbols[i], symbols[i + 1]
            counts[pair] = counts.get(pair, 0) + times
    best = max(counts, key=lambda pair: (counts[pair], pair))
    merged = {}
    for word, times in words.items():
        joined = []
        for symbol in word.split():
            if joined and (joined[-1], symbol) == best:
                joined[-1] += symbol
            else:
                joined.append(symbol)
        merged[" ".join(joined)] = times
    return best, merged
    # solution] in the exercise:
    #: # TODO: count the pairs, choose one, join it in every word
    #: return ..., ...
