"""Many sentences, cut into batches."""

import threading

import numpy as np
import pytest

from minitransformer.data import END
from minitransformer.decoding import batches, beam_search, greedy, in_batches, texts, translate
from minitransformer.tasks import build


def test_results_come_in_the_order_of_the_sentences(model):
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in (1, 7, 4, 2, 5, 3, 6, 1, 2, 8)]
    seen = []

    def search(ids):
        seen.append(ids.shape)
        return greedy(model, ids, max_length=6)

    found = in_batches(search, sources, size=4, workers=1)
    assert found == [greedy(model, [source], max_length=6)[0] for source in sources]
    assert len({tuple(sentence) for sentence in found}) > 1
    # The four shortest, four more, and the two longest: little is padding.
    assert seen == [(4, 3), (4, 7), (2, 9)]


def test_a_long_sentence_does_not_lengthen_its_neighbours(monkeypatch):
    seen = []
    monkeypatch.setattr(batches, "TOKENS", 12)
    in_batches(lambda ids: seen.append(ids.shape) or [0] * len(ids), [[3] * n for n in (2, 4, 1, 3, 40, 5)], workers=1)
    assert seen == [(3, 3), (2, 5), (1, 40)]
    in_batches(lambda ids: seen.append(ids.shape) or [0] * len(ids), [[3] * 4] * 4, workers=1)
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


def test_several_workers_find_the_same_and_the_model_keeps_its_mode(model):
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in rng.integers(1, 9, 20)]
    threads = set()

    def search(ids):
        threads.add(threading.get_ident())
        return beam_search(model, ids, beam=3, max_length=8)

    model.train()  # no thread may decode with dropout for that, nor change it
    expected = in_batches(search, sources, size=3, workers=1)
    assert threads == {threading.get_ident()}
    found = in_batches(search, sources, size=3, workers=3)
    assert len(threads) > 1
    assert [best.tokens for (best,) in found] == [best.tokens for (best,) in expected]
    assert model.training


def test_what_goes_wrong_in_a_worker_is_told():
    def search(ids):
        raise KeyError(ids.shape[1])

    with pytest.raises(KeyError, match="2"):
        in_batches(search, [[3, END], [3, 4, END], [3, 4, 5, END]], size=1, workers=2)


@pytest.mark.numpy_only("threads share the cores of a CPU")
def test_where_the_system_refuses_threads_one_searches_alone(few_threads):
    few_threads(1)
    with pytest.warns(UserWarning, match="refused more threads"):
        assert in_batches(lambda ids: [row.tolist() for row in ids], [[3], [4]], size=1, workers=2) == [[3], [4]]
