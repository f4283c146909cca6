"""Every variation is measured once with every seed, and the progress says which."""

import pytest

from minitransformer.apps.measure.seeds import over_seeds


def test_all_are_measured_with_the_first_seed_before_the_second():
    order, told = [], []
    found = over_seeds(
        [("copy", 3), ("recall", 1)],
        [5, 0],
        lambda name, seed: order.append((name, seed)) or len(order),
        told.append,
        lambda result: f"result {result}",
    )
    assert order == [(("copy", 3), 5), (("recall", 1), 5), (("copy", 3), 0), (("recall", 1), 0)]
    assert found == {("copy", 3): [1, 3], ("recall", 1): [2, 4]}
    assert told[0] == "1 of 4: copy, 3, seed 5: result 1"
    assert told[3] == "4 of 4: recall, 1, seed 0: result 4"


@pytest.mark.parametrize(("seeds", "words"), [([3, 1, 3], "found 3"), ([0, -1], "-1")])
def test_seeds_must_be_possible_and_different(seeds, words):
    with pytest.raises(ValueError, match=words):
        over_seeds(["one"], seeds, pytest.fail, pytest.fail, str)
