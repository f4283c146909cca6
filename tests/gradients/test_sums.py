"""Sums of the gradients of micro-batches."""

import numpy as np

from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.autograd import Tensor
from minitransformer.gradients import Flat, Sum
from minitransformer.optim import Buffer


def shares_of(*values):
    sizes = (2, len(values[0]) - 2) if len(values[0]) > 2 else (len(values[0]),)
    buffer = Buffer([Tensor(xp.zeros(size, dtype="float32")) for size in sizes])
    return [Flat(asarray(np.array(value, dtype="float32")), buffer) for value in values]


def test_shares_are_added_in_their_order():
    """The sum of float32 numbers depends on the order."""
    out = xp.empty(1, dtype="float32")
    for values, expected in (([2e8], [-2e8], [1]), 1), (([1], [2e8], [-2e8]), 0):
        Sum(shares_of(*values)).write(slice(0, 1), out)
        assert out.tolist() == [expected]


def test_the_gradient_of_one_share_is_multiplied_by_the_factor():
    found = Sum(shares_of([2, 4, 6]), asarray(np.float32(0.5))).by_parameter()
    assert [to_numpy(array).tolist() for array in found] == [[1, 2], [3]]


def test_several_shares_or_a_part_of_a_process_are_not_in_memory_parameter_by_parameter():
    assert Sum(shares_of([1], [2])).by_parameter() is None
    parameters = [Tensor(xp.zeros(20_000, dtype="float32")), Tensor(xp.zeros(20_000, dtype="float32"))]
    for rank in range(2):
        buffer = Buffer(parameters, (rank, 2))
        assert Flat(buffer.values[buffer.own], buffer).by_parameter() is None
