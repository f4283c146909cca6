"""Comparison of a run with CTranslate2."""

from copy import deepcopy

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
    """Compare the log-probabilities of every token, and the end, as the search sees them.

    Both sides are held to the same run in double precision. How far single precision may lead away depends on the model
    (without a last norm, the logits are differences of large numbers) and on the processor, so the measure is how far
    our own single precision leads: theirs sums in another order, and may be up to four times as far away.
    """
    words = [[[tokeniser.tokens[i] for i in ids] for ids in side] for tokeniser, side in
             zip((run.source, run.target), zip(*pairs, strict=True), strict=True)]  # fmt: skip
    expected = theirs.score_batch([[*one, *end] for one in words[0]], words[1])
    has_end = run.model.options.source_end
    source_ids = pad([[*one, END] if has_end else one for one, _ in pairs])
    target_ids = pad([[START, *other] for _, other in pairs])

    def scores(dtype):
        model = deepcopy(run.model)
        for parameter in model.parameters():
            parameter.data = parameter.data.astype(dtype)
        logits = model(source_ids, target_ids).data
        (rules or run.options.search).restrict(logits, LIMIT, False)
        found = mt.ops.log_softmax(logits).data
        rows = zip(found, pairs, strict=True)
        return np.concatenate([row[np.arange(len(other) + 1), [*other, END]] for row, (_, other) in rows])

    truth = scores("float64")
    rounding = np.abs(scores("float32") - truth).max()
    assert rounding < 1e-4
    np.testing.assert_allclose(np.concatenate([one.log_probs for one in expected]), truth, rtol=0, atol=4 * rounding)


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
