"""Many sentences, cut into batches."""

import numpy as np
import pytest

from minitransformer.data import END
from minitransformer.decoding import beam_search, greedy, in_batches


def test_results_come_in_the_order_of_the_sentences(model):
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in (1, 7, 4, 2, 5, 3, 6, 1, 2, 8)]
    seen = []

    def search(ids):
        seen.append(ids.shape)
        return greedy(model, ids, max_length=6)

    found = in_batches(search, sources, size=4)
    assert found == [greedy(model, [source], max_length=6)[0] for source in sources]
    assert len({tuple(sentence) for sentence in found}) > 1
    # The four shortest, four more, and the two longest: little is padding.
    assert seen == [(4, 3), (4, 7), (2, 9)]


def test_any_search_will_do(model):
    sources = [[3, 4, 5, END], [6, END]]
    found = in_batches(lambda ids: beam_search(model, ids, beam=2), sources, size=1)
    assert [best.tokens for (best,) in found] == [beam_search(model, [s], beam=2)[0][0].tokens for s in sources]


def test_no_sentences_make_no_batch():
    assert in_batches(lambda ids: 1 / 0, []) == []


def test_a_batch_has_at_least_one_sentence():
    with pytest.raises(ValueError, match="size must be at least 1, found 0"):
        in_batches(lambda ids: 1 / 0, [[3, END]], size=0)
