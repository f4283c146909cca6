"""How long greedy decoding writes; what it writes is compared in test_rules.py."""

from minitransformer.data import END, pad
from minitransformer.decoding import greedy


def test_no_sentence_is_longer_than_the_source_plus_fifty(model):
    model.output.data[END] = 0  # its score is 0, and some other token's is above
    together = greedy(model, pad([[3, 4, END], [3, 4, 5, 6, 7, 8, END]]))
    assert [len(sentence) for sentence in together] == [53, 57]
    assert greedy(model, [[3, 4, END]]) == together[:1]
    assert greedy(model, [[3, 4, END]], max_length=0) == [[]]
