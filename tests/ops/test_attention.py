"""The page attention: values by loops, masks, extremes, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitransformer as mt
from minitransformer import Tensor
from minitransformer.ops import attention
from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(4)


def slow_attention(q, k, v, mask, d_y):
    """Compute one head, the output and the gradients of q, k and v, entry by entry from the page's formulas."""
    t_q, t_k, d_k, d_v = len(q), len(k), len(k[0]), len(v[0])
    y = np.zeros((t_q, d_v))
    d_q, d_keys, d_values = np.zeros((t_q, d_k)), np.zeros((t_k, d_k)), np.zeros((t_k, d_v))
    for i in range(t_q):
        seen = [j for j in range(t_k) if mask[i][j]]
        powers = {j: math.exp(sum(q[i][c] * k[j][c] for c in range(d_k)) / math.sqrt(d_k)) for j in seen}
        w = {j: powers[j] / sum(powers.values()) for j in seen}
        d_w = {j: sum(d_y[i][c] * v[j][c] for c in range(d_v)) for j in seen}
        for j in seen:
            y[i] += w[j] * v[j]
            d_values[j] += w[j] * d_y[i]
            d_s = w[j] * (d_w[j] - sum(w[n] * d_w[n] for n in seen))
            d_q[i] += d_s * k[j] / math.sqrt(d_k)
            d_keys[j] += d_s * q[i] / math.sqrt(d_k)
    return y, d_q, d_keys, d_values


def test_attention_against_loops():
    q, k, v, d_y = (RNG.normal(size=shape) for shape in ((3, 4, 5), (3, 6, 5), (3, 6, 2), (3, 4, 2)))
    mask = RNG.random((3, 4, 6)) < 0.6
    mask[1, 2] = False
    y, saved = attention.forward(q, k, v, mask)
    found = (y, *attention.backward(saved, d_y))
    for n in range(3):
        for ours, slow in zip(found, slow_attention(q[n], k[n], v[n], mask[n], d_y[n]), strict=True):
            np.testing.assert_allclose(ours[n], slow, rtol=0, atol=2e-14)


def test_equal_scores_give_the_mean_of_the_values():
    v = RNG.normal(size=(5, 3))
    y, saved = attention.forward(np.zeros((2, 4)), RNG.normal(size=(5, 4)), v)
    np.testing.assert_allclose(y, np.broadcast_to(v.mean(axis=0), (2, 3)), rtol=1e-14)
    np.testing.assert_array_equal(saved[-1], 0.2)


@given(strategies.attention(), st.data())
def test_hidden_keys_have_exactly_no_weight_and_no_gradient(example, data):
    q, k, v, mask = example.inputs
    y, saved = attention.forward(q, k, v, mask)
    weights = saved[-1]
    seen = np.broadcast_to(True if mask is None else mask, weights.shape)
    assert (weights[~seen] == 0).all()
    d_q, d_k, d_v = attention.backward(saved, data.draw(strategies.cotangents(y.shape)))
    blind = ~seen.any(axis=-1)
    assert (y[blind] == 0).all()
    assert (d_q[blind] == 0).all()
    unseen = ~seen.any(axis=-2)
    assert (d_k[unseen] == 0).all()
    assert (d_v[unseen] == 0).all()


def test_what_a_mask_hides_changes_nothing():
    q, k, v = (RNG.normal(size=shape) for shape in ((4, 5), (6, 5), (6, 3)))
    mask = np.arange(6) < 4
    before, _ = attention.forward(q, k, v, mask)
    k[4:], v[4:] = 1e4, -1e4
    np.testing.assert_array_equal(attention.forward(q, k, v, mask)[0], before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_ten_thousand_are_stable(dtype):
    q = np.array([[1e4], [-1e4], [0]], dtype=dtype)
    k = np.array([[1], [-1], [1]], dtype=dtype)
    v = np.array([[3, 1], [5, 2], [9, 4]], dtype=dtype)
    y, saved = attention.forward(q, k, v)
    np.testing.assert_allclose(y, [[6, 2.5], [5, 2], [17 / 3, 7 / 3]], rtol=1e-6)
    gradients = attention.backward(saved, np.array([[1, 2], [3, 4], [5, 6]], dtype=dtype))
    assert all(np.isfinite(g).all() and g.dtype == dtype for g in gradients)
    np.testing.assert_allclose(gradients[0][:2], 0, atol=1e-6)


def test_the_output_is_written_where_it_is_wanted():
    q, k, v = (RNG.normal(size=shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    out = np.empty((2, 6, 3)).swapaxes(-1, -2)
    y, _ = attention.forward(q, k, v, out=out)
    assert y is out
    np.testing.assert_array_equal(out, attention.forward(q, k, v)[0])


@pytest.mark.parametrize(("t_q", "t_k", "d_v"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (0, 0, 0)])
@pytest.mark.parametrize("masked", [False, True])
def test_axes_of_length_zero_and_one(t_q, t_k, d_v, masked):
    q, k, v = np.ones((t_q, 2)), np.ones((t_k, 2)), np.ones((t_k, d_v))
    mask = np.ones((t_q, t_k), dtype=bool) if masked else None
    y, saved = attention.forward(q, k, v, mask)
    np.testing.assert_array_equal(y, np.full((t_q, d_v), float(t_k > 0)))
    for x, d_x in zip((q, k, v), attention.backward(saved, np.ones_like(y)), strict=True):
        assert d_x.shape == x.shape
    tensors = [mt.Tensor(x, requires_grad=True) for x in (q, k, v)]
    composed = attention.composed(*tensors, mask)
    np.testing.assert_array_equal(composed.data, y)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (5, 3), (5, 2)),
        ((3, 4), (5, 4), (6, 2)),
        ((2, 3, 4), (1, 5, 4), (1, 5, 2)),
        ((3, 4), (2, 5, 4), (2, 5, 2)),
        ((4,), (5, 4), (5, 2)),
        ((3, 0), (5, 0), (5, 2)),
    ],
)
def test_shapes_that_do_not_match_are_refused(shapes):
    with pytest.raises(
        ValueError, match=r"scaled_dot_product_attention: q of shape .*, k of shape .* and v of shape"
    ) as e:
        attention.forward(*map(np.zeros, shapes))
    assert all(str(shape) in str(e.value) for shape in shapes)


def test_wrong_masks_are_refused():
    q, k, v = np.zeros((3, 4)), np.zeros((5, 4)), np.zeros((5, 2))
    with pytest.raises(TypeError, match="scaled_dot_product_attention: the mask must be boolean"):
        attention.forward(q, k, v, np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"a mask of shape \(5, 3\) cannot be broadcast to the scores' shape \(3, 5\)"):
        attention.forward(q, k, v, np.ones((5, 3), dtype=bool))


def test_the_composed_form_keeps_the_type():
    q, k, v = (Tensor(np.ones(shape, dtype=np.float32)) for shape in ((2, 3), (4, 3), (4, 5)))
    mask = np.array([[True, False, True, True], [False] * 4])
    assert attention.composed(q, k, v, mask).dtype == np.float32
