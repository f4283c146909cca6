"""Greedy decoding and beam search against PyTorch's operations with the same weights and the same rules."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.data import END

pytest.importorskip("torch", reason="needs PyTorch")

from minitransformer.apps.measure.speed import pytorch_decoding
from minitransformer.decoding import beam_search, greedy

pytestmark = [pytest.mark.referee, pytest.mark.numpy_only("hands NumPy's arrays to both sides")]

SOURCE = np.array([[3, 1, 6, 2, 4, 9, 2], [7, 5, 2, 0, 0, 0, 0], [4, 3, 8, 8, 2, 0, 0], [9, 9, 9, 10, 3, 3, 2]])
MOST = 15


def models(seed, **options):
    """Return a model that writes varied sentences, some of which end, and the same one in PyTorch."""
    ours = mt.nn.Transformer(
        11, 11, d_model=12, n_heads=3, n_layers=2, d_ff=20, dtype="float64", share_embeddings=False, **options
    )
    rng = np.random.default_rng(seed)
    for parameter in ours.parameters():
        parameter.data = parameter.data + rng.normal(0, 0.5, parameter.shape)
    return ours, pytorch_decoding.Translator(ours, MOST)


@pytest.mark.parametrize("options", [{}, {"attention_bias": True}], ids=["plain", "biases"])
def test_greedy_sentences_are_the_same(options):
    lengths = set()
    for seed in range(8):
        ours, theirs = models(seed, **options)
        sentences = greedy(ours, SOURCE, MOST)
        assert sentences == pytorch_decoding.greedy(theirs, SOURCE, MOST)
        lengths |= set(map(len, sentences))
    assert MOST in lengths
    assert len(lengths) > 1  # others have ended, and left the batch


@pytest.mark.parametrize(("width", "alpha"), [(1, 0.6), (4, 0.6), (4, 0.0), (12, 2.0)])
def test_the_best_of_a_beam_is_the_same(width, alpha):
    ended = 0
    for seed in range(8):
        ours, theirs = models(seed)
        best = [hypotheses[0] for hypotheses in beam_search(ours, SOURCE, width, alpha, MOST)]
        sentences, scores = pytorch_decoding.beam(theirs, SOURCE, MOST, width, alpha)
        assert [hypothesis.tokens for hypothesis in best] == sentences
        np.testing.assert_allclose([hypothesis.score for hypothesis in best], scores, rtol=1e-10)
        ended += sum(hypothesis.finished for hypothesis in best)
    assert ended > 0


def test_a_limit_of_one_token():
    ours, theirs = models(0)
    assert greedy(ours, SOURCE, 1) == pytorch_decoding.greedy(theirs, SOURCE, 1)
    best = [hypotheses[0].tokens for hypotheses in beam_search(ours, SOURCE, 4, 0.6, 1)]
    assert pytorch_decoding.beam(theirs, SOURCE, 1)[0] == best
    assert all(END not in sentence for sentence in best)
