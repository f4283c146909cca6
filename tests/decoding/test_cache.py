"""The cache of decoding: hypotheses that overtake each other see their own past, and nothing else."""

import numpy as np
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.arrays import to_numpy
from minitransformer.data import END, START

SOURCE = np.array([[3, 4, 5, END], [6, END, 0, 0], [7, 8, END, 0]])


def last_scores(model, source, pasts):
    """Return the scores after each of several sentences of one length, without a cache."""
    sources = np.repeat(source[None, source != 0], len(pasts), axis=0)
    with mt.no_grad():
        return model.eval()(sources, [[START, *past] for past in pasts]).numpy()[:, -1]


@cases_from_toml
def test_each_hypothesis_sees_its_own_past(make_model, options):
    model, rng = make_model(**options), np.random.default_rng(0)
    cache = model.new_cache(SOURCE)
    width, active = 3, np.arange(3)
    pasts = [[[]] for _ in SOURCE]
    parents, tokens = np.zeros((3, 1), dtype=np.int64), np.full((3, 1), START)
    stored = []
    for step in range(24):
        logits = to_numpy(model.step(tokens, cache, parents))
        for i, of_sentence in enumerate(pasts):
            expected = last_scores(model, SOURCE[active[i]], of_sentence)
            np.testing.assert_allclose(logits[i], expected, rtol=0, atol=1e-12)
        stored.append(len(cache.target[0]))
        if step == 15:  # the first sentence ends
            kept = cache.select(np.array([False, True, True]))
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
