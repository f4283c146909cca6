"""Many sentences, cut into batches; and the steps of which every search consists."""

import threading

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import to_numpy
from minitransformer.data import END, START
from minitransformer.decoding import beam_search, greedy, in_batches
from minitransformer.decoding.steps import Steps, writing


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


def test_any_search_will_do(model):
    sources = [[3, 4, 5, END], [6, END]]
    found = in_batches(lambda ids: beam_search(model, ids, beam=2), sources, size=1)
    assert [best.tokens for (best,) in found] == [beam_search(model, [s], beam=2)[0][0].tokens for s in sources]


def test_no_sentences_make_no_batch():
    assert in_batches(lambda ids: 1 / 0, []) == []


def test_a_batch_has_at_least_one_sentence():
    with pytest.raises(ValueError, match="size must be at least 1, found 0"):
        in_batches(lambda ids: 1 / 0, [[3, END]], size=0)


def test_several_workers_find_the_same_and_the_model_keeps_its_mode(model):
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in rng.integers(1, 9, 20)]
    threads = set()

    def search(ids):
        threads.add(threading.get_ident())
        return beam_search(model, ids, beam=3, max_length=8)

    model.train()  # with dropout, if a thread that is done were to switch it on again
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
    with pytest.raises(ValueError, match="workers must be at least 1, found 0"):
        in_batches(search, [[3, END]], workers=0)


# The steps themselves: hypotheses that overtake each other see their own past, and nothing else


SOURCE = np.array([[3, 4, 5, END], [6, END, 0, 0], [7, 8, END, 0]])


def last_scores(model, source, tokens):
    """Return the scores after a sentence, without a cache."""
    with mt.no_grad():
        return model(source[None, source != 0], [[START, *tokens]]).numpy()[0, -1]


@pytest.mark.parametrize(
    "options", [{}, {"norm": "pre", "attention_bias": True, "d_v": 5}, {"positions": "learned"}], ids=str
)
def test_each_hypothesis_sees_its_own_past(make_model, options):
    model, rng = make_model(**options), np.random.default_rng(0)
    model.eval()
    with writing(model):
        steps = Steps(model, SOURCE)
        width, active = 3, np.arange(3)
        pasts = [[[]] for _ in SOURCE]
        parents, tokens = np.zeros((3, 1), dtype=np.int64), np.full((3, 1), START)
        stored = []
        for step in range(24):
            logits = to_numpy(steps(tokens, parents)).reshape(*tokens.shape, -1)
            for i, of_sentence in enumerate(pasts):
                for place, past in enumerate(of_sentence):
                    expected = last_scores(model, SOURCE[active[i]], past)
                    np.testing.assert_allclose(logits[i, place], expected, rtol=0, atol=1e-12)
            stored.append(len(steps.cache[0].self_attention))
            if step == 15:  # the first sentence ends
                kept = steps.select(np.array([False, True, True]))
                assert sorted(kept.tolist()) == [1, 2]
                active, pasts = active[kept], [pasts[i] for i in kept]
            n = len(active)
            parents = rng.integers(0, len(pasts[0]), (n, width))
            tokens = rng.integers(3, 9, (n, width))
            pasts = [
                [[*past[p], t] for p, t in zip(ps.tolist(), ts.tolist(), strict=True)]
                for past, ps, ts in zip(pasts, parents, tokens, strict=True)
            ]
    # All that was ever written would be 1 + 23 * 3; what nobody sees any more has been dropped.
    assert stored[:5] == [1, 4, 7, 10, 13]
    assert max(stored) < 60
    assert min(np.diff(stored)) < 0


def test_one_hypothesis_needs_no_mask(model):
    with writing(model):
        steps = Steps(model, SOURCE)
        for _ in range(3):
            steps(np.full((3, 1), 4), np.zeros((3, 1), dtype=np.int64))
    assert steps.seen is None
    assert len(steps.cache[0].self_attention) == 3
