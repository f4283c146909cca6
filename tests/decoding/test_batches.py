"""Many sentences, cut into batches."""

import numpy as np
import pytest

from minitransformer.data import END
from minitransformer.decoding import batches, greedy, in_batches, texts, translate
from minitransformer.tasks import build


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


def test_a_long_sentence_does_not_lengthen_its_neighbours(monkeypatch):
    seen = []
    monkeypatch.setattr(batches, "TOKENS", 12)
    in_batches(lambda ids: seen.append(ids.shape) or [0] * len(ids), [[3] * n for n in (2, 4, 1, 3, 40, 5)])
    assert seen == [(3, 3), (2, 5), (1, 40)]
    in_batches(lambda ids: seen.append(ids.shape) or [0] * len(ids), [[3] * 4] * 4)
    assert seen[3:] == [(3, 4), (1, 4)]  # twelve tokens may be in one batch


def test_full_memory_names_the_longest_text(model, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 9 PB")

    tokens = build("copy").tokenisers()[0]
    monkeypatch.setattr(texts, "in_batches", full)
    with pytest.raises(MemoryError, match="9 PB") as caught:
        translate(model, tokens, tokens, ["12", "1234567", "3"])
    advice = "Leave it out, split it, or train with a smaller attention_block"
    assert caught.value.__notes__ == [f"The longest text has 8 tokens: '1234567'... {advice}"]
    monkeypatch.setattr(texts, "in_batches", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) as other:
        translate(model, tokens, tokens, ["12"])
    assert not hasattr(other.value, "__notes__")


def test_no_sentences_make_no_batch():
    assert in_batches(lambda ids: 1 / 0, []) == []
