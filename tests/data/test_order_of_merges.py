"""The order of merges is part of a tokeniser: the first is joined first."""

import pytest

from minitransformer.data import Merges, tokeniser_from_json


def test_merges_come_back_in_the_order_in_which_they_were_learned():
    pytest.importorskip("subword_nmt.apply_bpe")
    learned = Merges.train(["zyx zyx zyx zy zy abc abc ab"], merges=6)
    assert list(learned.merges) != sorted(learned.merges)
    again = tokeniser_from_json(learned.to_json())
    assert again.merges == learned.merges
    for text in ("zyx abc", "yx bc zyab"):
        assert again.encode(text) == learned.encode(text)
