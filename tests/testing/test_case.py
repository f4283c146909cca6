"""The parts that both checks are made of: cotangents, comparisons, and what is seen of a function."""

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.arrays import to_numpy, xp
from minitransformer.testing.case import arrays_in, draw_cotangent, is_float, nearly_same, same_bits
from minitransformer.testing.rules import OperationCase

X = np.array([1.0, -2.0, 0.5])


def test_cotangents_have_both_signs_and_no_two_entries_alike():
    d = draw_cotangent(np.random.default_rng(0), (20, 30))
    assert d.shape == (20, 30)
    assert len(np.unique(np.abs(d))) == d.size
    assert 0.5 <= np.abs(d).min() < 0.52
    assert 1.98 < np.abs(d).max() <= 2
    assert 0.4 < (d < 0).mean() < 0.6


@cases_from_toml
def test_the_same_bits(a, b, same):
    assert same_bits(np.array(a), np.array(b)) == same


def test_the_same_bits_are_of_one_type():
    assert not same_bits(np.ones(2), np.ones(2, dtype=np.float32))


@cases_from_toml
def test_nearly_the_same(a, b, same):
    assert nearly_same(np.array(a), np.array(b), 1e-10) == same


def case(function, inputs=(X,), **options):
    return OperationCase("check", function, inputs, options)


def test_the_change_of_the_loss_and_the_size_of_its_terms():
    loss = case(lambda x, y: x * y, (X, X + 1)).loss({1: np.array([0.0, 1.0, 0.0])}, np.array([1.0, -1.0, 1.0]))
    # x (y + t e) c with t = 3: 1 * 2 - (-2) (-1 + 3) + 0.5 * 1.5, and 2 - 2 + 0.75 at the start
    assert loss(3.0) == (2 + 4 + 0.75 - (2 - 2 + 0.75), 2 + 4 + 0.75)
    assert loss(0.0) == (0.0, 2 + 2 + 0.75)


def test_a_small_entry_moves_the_loss_beside_large_ones():
    """A sum of the values, taken first, would round it away."""
    many, v = np.array([1e30, 1.0, -1e30, 1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    assert case(lambda x: x * 1.0, (many,)).loss({0: v}, np.ones(4))(0.5) == (0.5, 1.5)


@pytest.mark.parametrize("function", [lambda x: x + x[::-1], lambda x: x * (1 + 1e-9 * x[::-1])])
def test_an_entry_that_stands_still_by_rounding_counts_as_rounding(function):
    v, c = np.array([0.0, 1.0]), np.ones(2)
    assert case(function, (np.array([1e30, 1.0]),)).loss({0: v}, c)(1e-8)[1] > 1e29


def test_gradients_keep_their_places():
    operation = mt.Operation(
        lambda ids, x, mask, y: (x * y, (x, y)), lambda saved, d: (None, saved[1] * d, None, saved[0] * d), name="three"
    )
    found = case(operation, (np.array([1]), X, None, X + 1)).backward((X, X + 1), np.ones(3))
    assert found[0] is found[2] is None
    np.testing.assert_array_equal(found[1], X + 1)
    np.testing.assert_array_equal(found[3], X)
    assert len(case(operation, (np.array([1]), X)).backward((X, X + 1), np.ones(3))) == 2  # and those of options go
    short = mt.Operation(lambda x, ids: (x, None), lambda saved, d: (d,), name="short")
    assert case(short, (X, 3)).backward(None, X)[1] is None


def test_names_are_those_of_forward_and_then_numbers():
    assert case(mt.ops.softmax).names == ["x"]
    assert case(mt.ops.softmax, (X, -1)).names == ["x", "axis"]
    assert case(lambda *x: x[0], (X, X)).names == ["0", "1"]


def test_inputs_are_widened_and_keep_their_layout():
    narrow = np.asfortranarray(np.ones((2, 3), dtype=np.float32))
    found = case(lambda x, n, ids: x, (narrow, np.float32(2), np.arange(3))).arrays
    assert [x.dtype for x in found] == [np.float64, np.float64, np.int64]
    assert found[0].flags.f_contiguous
    assert [is_float(x) for x in found] == [True, True, False]


@pytest.mark.parametrize("change", [np.copy, np.transpose, lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x[1]])
def test_every_call_moves_a_copy_in_the_same_order_in_memory(change):
    kept, x = [], change(np.arange(1.0, 7.0).reshape(2, 3))
    x.flags.writeable = False
    mt.testing.gradcheck(lambda a: kept.append(to_numpy(a.data)) or a * a, (x,))
    assert {(each.strides, each.flags.writeable) for each in kept} == {(np.copy(x, order="C").strides, True)}


def test_arrays_are_found_wherever_they_are_saved():
    class Kept:
        def __init__(self):
            self.array = xp.asarray(X)

    value = (xp.asarray(X), {"a": [xp.asarray(X), None, 3]}, Kept(), "text", len)
    assert len(list(arrays_in(value))) == 3
