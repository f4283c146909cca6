"""The order of batches: the same from one seed, and another from each seed and in each epoch."""

from itertools import combinations

import numpy as np

from minitransformer.data import ParallelBatches


def test_no_epoch_of_one_seed_is_an_epoch_of_another():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(3, 9, n).tolist(), rng.integers(3, 9, n).tolist()) for n in rng.integers(1, 6, 60)]

    def order(seed, number):
        return [batch.source.tolist() for batch in ParallelBatches(pairs, 24, seed).epoch(number)]

    places = [(seed, number) for seed in range(4) for number in range(4)]
    orders = [order(*place) for place in places]
    assert orders == [order(*place) for place in places]
    for (one, first), (other, second) in combinations(zip(places, orders, strict=True), 2):
        assert first != second, (one, other)
