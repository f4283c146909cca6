"""Rules of a search that other programs have; their own searches are the oracles in tests/interop."""

import numpy as np

import minitransformer as mt
from minitransformer.data import END, Characters, ParallelBatches
from minitransformer.decoding import source_sentence


def model(end, **options):
    """Return a model whose end token is more probable, or less."""
    made = mt.nn.Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16, output_bias=True, **options).eval()
    made.output_bias.data[END] = end
    return made


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
