"""The operation masking: values, both masks, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import masking

import minitransformer as mt
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
INF = np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masking_by_hand(dtype):
    x = np.array([[1, 2, INF], [-INF, 5, 6]], dtype=dtype)
    mask = np.array([[True, False, False], [False, True, True]])
    y, saved = masking.forward(x, mask)
    np.testing.assert_array_equal(y, [[1, -INF, -INF], [-INF, 5, 6]])
    (d_x,) = masking.backward(saved, np.arange(1, 7, dtype=dtype).reshape(2, 3))
    np.testing.assert_array_equal(d_x, [[1, 0, 0], [0, 5, 6]])
    assert y.dtype == d_x.dtype == dtype


@given(strategies.masking(extreme=True), st.data())
def test_hidden_scores_have_exactly_no_gradient(example, data):
    x, mask = example.inputs
    d = data.draw(strategies.cotangents(x.shape))
    y, saved = masking.forward(x, mask)
    seen = np.broadcast_to(mask, x.shape)
    assert (y[~seen] == -INF).all()
    np.testing.assert_array_equal(y[seen], x[seen])
    np.testing.assert_array_equal(masking.backward(saved, d)[0], np.where(seen, d, 0))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_causal_mask(n):
    assert mt.ops.causal_mask(n).tolist() == [[j <= i for j in range(n)] for i in range(n)]


def test_padding_mask():
    ids = [[3, 4, 0], [5, 0, 0]]
    mask = mt.ops.padding_mask(ids)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]
    assert mt.ops.padding_mask(ids, pad=5)[:, 0, 0].tolist() == [[True, True, True], [False, True, True]]
    both = mt.ops.causal_mask(3) & mask
    assert both.shape == (2, 1, 3, 3)
    assert both[1, 0].tolist() == [[True, False, False]] * 3


def test_the_padding_of_a_tensor_is_seen_too():
    mask = mt.ops.padding_mask(mt.Tensor([[5, 0, 3, 0]]))
    assert mask.tolist() == [[[[True, False, True, False]]]]
    with pytest.raises(TypeError, match="padding_mask: ids must be whole numbers, found an array of float64"):
        mt.ops.padding_mask([[5.0, 0.0]])
