"""Comparison of a run with CTranslate2."""

import numpy as np

import minitransformer as mt
from minitransformer.data import END, START, pad

LENGTH, LIMIT = 14, 20


def opened_there(folder):
    import ctranslate2

    return ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=1)


def sentences(run, n, seed=0, longest=LENGTH):
    """Return random pairs of ids, without start and end."""
    rng = np.random.default_rng(seed)
    sizes = [len(run.source), len(run.target)]
    return [[rng.integers(END + 1, size, rng.integers(1, longest)).tolist() for size in sizes] for _ in range(n)]


def same_scores(theirs, run, pairs, end=(), rules=None):
    """Compare the log-probabilities of every token, and the end, as the search sees them."""
    words = [[[tokeniser.tokens[i] for i in ids] for ids in side] for tokeniser, side in
             zip((run.source, run.target), zip(*pairs, strict=True), strict=True)]  # fmt: skip
    expected = theirs.score_batch([[*one, *end] for one in words[0]], words[1])
    has_end = run.model.options.source_end
    source_ids = pad([[*one, END] if has_end else one for one, _ in pairs])
    logits = run.model(source_ids, pad([[START, *other] for _, other in pairs])).data
    (rules or run.options.search).restrict(logits, LIMIT, False)
    found = mt.ops.log_softmax(logits).data
    for row, (_, other), one in zip(found, pairs, expected, strict=True):
        ours = row[np.arange(len(other) + 1), [*other, END]]
        np.testing.assert_allclose(ours, one.log_probs, rtol=1e-5, atol=1e-5)


def same_beams(theirs, run, pairs, end=()):
    """Compare the translations of greedy search and of beam search."""
    words = [[*(run.source.tokens[i] for i in one), *end] for one, _ in pairs]
    has_end, rules = run.model.options.source_end, run.options.search
    source_ids = pad([[*one, END] if has_end else one for one, _ in pairs])
    different = set()
    rules = rules.changed(most_written=LIMIT)
    for beam in (1, rules.beam, 5):
        options = {"beam_size": beam, "max_decoding_length": LIMIT, "min_decoding_length": rules.least_written}
        expected = [one.hypotheses[0] for one in theirs.translate_batch(words, **options)]
        if beam == 1:
            found = mt.decoding.greedy(run.model, source_ids, rules=rules)
        else:
            best = mt.decoding.beam_search(run.model, source_ids, beam, rules.alpha, rules=rules)
            found = [one[0].tokens for one in best]
        assert [[run.target.tokens[i] for i in one] for one in found] == expected
        different |= {tuple(one) for one in expected}
    assert len(different) > 3
