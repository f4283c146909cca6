"""Rules of a search that other programs have; their own searches are the oracles in tests/exchange."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.data import END, Characters, ParallelBatches
from minitransformer.decoding import PAPER, beam_search, greedy, source_sentence


def model(end, **options):
    """Return a model whose end token is more probable, or less."""
    made = mt.nn.Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16, output_bias=True, **options).eval()
    made.output_bias.data[END] = end
    return made


@pytest.mark.parametrize("fewest", [0, 1, 3])
def test_a_translation_has_the_fewest_tokens_or_more(fewest):
    rules = PAPER.changed(least_written=fewest)
    assert [len(one) for one in greedy(model(50), [[3, 4, 2]], rules=rules)] == [fewest]
    [found] = beam_search(model(50), [[3, 4, 2]], beam=2, rules=rules)
    assert len(found[0].tokens) == fewest
    assert found[0].log_probability <= -0.1 * fewest  # no probability is lost


def test_a_translation_that_reaches_the_limit_counts_as_if_it_had_ended():
    usual, other = (
        beam_search(model(-1), [[3, 4, 2]], beam=4, n_best=4, max_length=3, rules=PAPER.changed(limit_ends=ends))[0]
        for ends in (False, True)
    )
    assert [one.finished for one in usual] == sorted((one.finished for one in usual), reverse=True)
    assert [one.score for one in other] == sorted((one.score for one in other), reverse=True)
    assert not other[0].finished
    assert usual[0].score < other[0].score


def test_a_source_may_have_no_end():
    tokeniser = Characters.train(["abc"])
    for has_end in (True, False):
        ids = source_sentence(model(0, source_end=has_end), tokeniser, "abca")
        assert ids == tokeniser.encode("abca") + [END] * has_end
        batches = ParallelBatches([(tokeniser.encode("ab"), tokeniser.encode("a"))], 50, 0, has_end)
        [batch] = batches.epoch(0)
        assert (END in batch.source) == has_end
        assert batch.source.shape[1] == 2 + has_end
        np.testing.assert_array_equal(batch.target_output[0, :2], [*tokeniser.encode("a"), END])
    assert source_sentence(model(0, source_end=False), tokeniser, "") == [END]
