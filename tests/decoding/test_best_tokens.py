"""The n best tokens of each row, found by blocks where the vocabulary is large."""

import numpy as np
import pytest

from minitransformer.arrays import asarray, to_numpy
from minitransformer.decoding.beam import _most_probable
from minitransformer.decoding.search import BLOCK, best_tokens

RNG = np.random.default_rng(0)


def mostly_minus_infinity(n_rows, n_columns):
    scores = np.full((n_rows, n_columns), -np.inf)
    scores[:, RNG.permutation(n_columns)[:9]] = RNG.normal(size=(n_rows, 9))
    return scores


def tie_of_two_blocks(n_rows, n_columns):
    scores = np.zeros((n_rows, n_columns))
    scores[:, [0, -2, -1]] = 3, 5, 3  # the best block is the last, but the first holds the earlier of two equal ones
    return scores


KINDS = {
    "different": lambda *shape: RNG.normal(size=shape),
    "many equal": lambda *shape: RNG.integers(0, 3, size=shape),
    "equal in two blocks": tie_of_two_blocks,
    "all equal": lambda *shape: np.ones(shape),
    "mostly minus infinity": mostly_minus_infinity,
    "best ones last": lambda n_rows, n_columns: np.tile(np.arange(n_columns), (n_rows, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_columns", [9, 4 * BLOCK, 5 * BLOCK, 20 * BLOCK, 20 * BLOCK + 1, 21 * BLOCK - 1])
@pytest.mark.parametrize("n", [1, 2, 8])
def test_are_the_first_of_a_stable_order(kind, n_columns, n):
    scores = KINDS[kind](5, n_columns).astype("float32")
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    tokens, best = best_tokens(asarray(scores.copy()), n)
    np.testing.assert_array_equal(to_numpy(tokens), order)
    np.testing.assert_array_equal(to_numpy(best), np.take_along_axis(scores, order, axis=1))


def test_a_score_that_is_not_a_number_is_found():
    scores = RNG.normal(size=(3, 20 * BLOCK + 5))
    scores[[0, 1], [7, 20 * BLOCK + 2]] = np.nan
    _, best = best_tokens(asarray(scores), 2)
    np.testing.assert_array_equal(np.isnan(to_numpy(best)).any(axis=1), [True, True, False])


def test_log_probabilities_of_float32_scores_are_told_apart_like_those_of_float64():
    logits = np.float32(1000) + np.random.default_rng(0).normal(0, 1, (2, 9)).astype(np.float32)
    exact = logits.astype(np.float64)
    exact -= np.log(np.exp(exact - 1000).sum(axis=1, keepdims=True)) + 1000
    tokens, found = _most_probable(asarray(logits.copy()), 5)
    np.testing.assert_allclose(found, np.take_along_axis(exact, tokens, axis=1), rtol=0, atol=1e-6)
