"""Ties, and differences so small that rounding could hide them."""

import numpy as np
import pytest

from minitransformer.arrays import asarray
from minitransformer.data import END
from minitransformer.decoding import beam_search, greedy
from minitransformer.decoding.beam import _most_probable


@pytest.mark.parametrize(
    ("beam", "length", "expected"),
    [(2, 1, [[3], [4]]), (3, 1, [[3], [4], [5]]), (2, 2, [[3, 3], [3, 4]]), (3, 3, [[3, 3, 3], [3, 3, 4], [3, 3, 5]])],
)
def test_of_equals_the_lower_token_comes_first(make_model, favour, beam, length, expected):
    model = make_model(target_vocab=7)
    model.output.data[...] = 0  # all tokens are equally probable
    favour(model, END, -1e4)
    (found,) = beam_search(model, [[3, END]], beam=beam, max_length=length, n_best=beam)
    assert [h.tokens for h in found] == expected
    np.testing.assert_array_equal([h.score for h in found], found[0].score)
    assert greedy(model, [[3, END]], max_length=length) == expected[:1]


def test_log_probabilities_of_float32_scores_are_told_apart_like_those_of_float64():
    logits = np.float32(1000) + np.random.default_rng(0).normal(0, 1, (2, 9)).astype(np.float32)
    exact = logits.astype(np.float64)
    exact -= np.log(np.exp(exact - 1000).sum(axis=1, keepdims=True)) + 1000
    tokens, found = _most_probable(asarray(logits.copy()), 5)
    np.testing.assert_allclose(found, np.take_along_axis(exact, tokens, axis=1), rtol=0, atol=1e-6)
