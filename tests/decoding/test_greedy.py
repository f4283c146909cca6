"""Greedy decoding, held against decoding without a cache, one sentence at a time."""

from minitransformer.data import END, pad
from minitransformer.decoding import greedy


def test_no_sentence_is_longer_than_the_source_plus_fifty(model):
    model.output.data[END] = 0  # its score is 0, and some other token's is above
    lengths = [len(sentence) for sentence in greedy(model, pad([[3, 4, END]]))]
    assert lengths == [53]
