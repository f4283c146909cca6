"""Sums of the gradients of shares."""

import numpy as np

from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.optim import Flat, Gradients


def shares_of(*values):
    return [Flat(asarray(np.array(value, dtype="float32")), 0) for value in values]


def test_shares_are_added_in_their_order():
    """The sum of float32 numbers depends on the order."""
    out = xp.empty(1, dtype="float32")
    for values, expected in (([2e8], [-2e8], [1]), 1), (([1], [2e8], [-2e8]), 0):
        Gradients(shares_of(*values)).write_sum(slice(0, 1), [], out)
        assert out.tolist() == [expected]


def test_the_gradient_of_one_share_is_multiplied_by_the_factor():
    ends = [0, 2, 3]
    factor = asarray(np.float32(0.5))
    found = Gradients(shares_of([2, 4, 6]), factor).single(ends)
    assert [to_numpy(array).tolist() for array in found] == [[1, 2], [3]]


def test_several_shares_have_no_single_gradient():
    assert Gradients(shares_of([1], [2])).single([0, 1]) is None
