"""The operation embedding: values, repeated ids, errors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import embedding

from minitransformer.arrays import asarray
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")


def test_repeated_ids_add_their_gradients():
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y, saved = embedding.forward(np.array([[2, 0], [2, 2]]), table)
    assert y.tolist() == [[[5, 6], [1, 2]], [[5, 6], [5, 6]]]
    nothing, d_table = embedding.backward(saved, np.array([[[1.0, 10], [2, 20]], [[3, 30], [4, 40]]]))
    assert nothing is None
    assert d_table.tolist() == [[2, 20], [0, 0], [8, 80]]


@given(strategies.embedding(), st.data())
def test_embedding_against_loops(example, data):
    ids, table = example.inputs
    y, saved = embedding.forward(ids, table)
    d = data.draw(strategies.cotangents(y.shape))
    d_table = embedding.backward(saved, d)[1]
    expected = np.zeros(table.shape)
    for place in np.ndindex(ids.shape):
        np.testing.assert_array_equal(y[place], table[ids[place]])
        expected[ids[place]] += d[place]
    np.testing.assert_allclose(d_table, expected, rtol=0, atol=1e-13)


def test_a_table_stored_by_columns_is_not_copied():
    values = np.asfortranarray(np.random.default_rng(0).standard_normal((2000, 64)))
    table = asarray(values)
    tracemalloc.start()
    y, _ = embedding.forward(np.array([[5, 1999], [0, 5]]), table)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < values.nbytes / 10
    np.testing.assert_array_equal(y, values[[[5, 1999], [0, 5]]])


def test_no_ids_and_unsigned_ids():
    y, saved = embedding.forward(np.zeros((0, 2), dtype=np.int64), np.ones((3, 4)))
    assert y.shape == (0, 2, 4)
    assert embedding.backward(saved, y)[1].tolist() == [[0] * 4] * 3
    assert embedding.forward(np.array([2], dtype=np.uint8), np.eye(3))[0].tolist() == [[0, 0, 1]]
