"""The n-grams that a translation shares with its reference.

An n-gram is n words in a row. BLEU asks how many n-grams of the translation
stand in the reference too. An n-gram that occurs several times counts at most
as often as in the reference: it is clipped. Otherwise "the the the" would be a
perfect translation of every sentence with a "the".

    reference    the dog sees the old man
    translation  the dog the dog

For n = 1, "the" counts twice and "dog" once: 3 of 4. For n = 2, "the dog"
counts once and "dog the" is not found: 1 of 3.
"""


def ngrams(words, n):
    """Return all n-grams of a list of words, in order."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def matches(translation, reference, n):
    """Return how many n-grams are found, and how many the translation has.

    translation and reference are lists of words.
    """
    mine, theirs = ngrams(translation, n), ngrams(reference, n)
    # [solution
    found = sum(min(mine.count(one), theirs.count(one)) for one in set(mine))
    return found, len(mine)
    # solution] in the exercise:
    #: # TODO (set and list.count may help)
    #: return ..., ...
