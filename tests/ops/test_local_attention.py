"""The operation local_attention: equal to attention under a band, what each query sees, memory, errors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import local_attention
from passes import scaled_dot_product_attention as attention

from minitransformer.testing import strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(14)


def band(length, r, causal):
    """Return the mask by which the queries of ordinary attention see as far as those of local attention."""
    i, j = np.arange(length, dtype=np.int64)[:, None], np.arange(length)
    return (i - r <= j) & (j <= (i if causal else i + r))


def draw(length, leading=(2, 3), d_k=5, d_v=4):
    return [RNG.normal(size=(*leading, length, d)) for d in (d_k, d_k, d_v, d_v)]


def same_as_attention(q, k, v, mask, d_y, radius, causal):
    length = q.shape[-2]
    y, saved = local_attention.forward(q, k, v, mask, radius=radius, causal=causal)
    seen = band(length, radius, causal) & (True if mask is None else np.broadcast_to(mask, q.shape[:-1])[..., None, :])
    dense, saved_dense = attention.forward(q, k, v, seen)
    np.testing.assert_allclose(y, dense, rtol=0, atol=1e-14 * max(1, np.abs(dense).max(initial=0)))
    gradients = local_attention.backward(saved, d_y)
    for one, other in zip(gradients, attention.backward(saved_dense, d_y), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * max(1, np.abs(other).max(initial=0)))
    blind = ~np.broadcast_to(seen, (*q.shape[:-1], length)).any(axis=-1)
    unseen = ~np.broadcast_to(seen, (*q.shape[:-1], length)).any(axis=-2)
    for x, where in ((y, blind), (gradients[0], blind), (gradients[1], unseen), (gradients[2], unseen)):
        assert (x[where] == 0).all()  # to the last bit


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("r", [0, 1, 2, 3, 4, 6, 11, 12, 13, 10**15, np.int64(5)])
@pytest.mark.parametrize("length", [1, 2, 12, 13])
def test_it_is_attention_under_a_band(length, r, causal):
    q, k, v, d_y = draw(length)
    same_as_attention(q, k, v, None, d_y, r, causal)
    same_as_attention(q, k, v, RNG.random((2, 1, length)) < 0.6, d_y, r, causal)


MASKS = {
    "all": lambda t: np.ones((2, 3, t), dtype=bool),
    "one for all": lambda t: RNG.random(t) < 0.6,
    "a single entry": lambda t: np.array(True),
    "a single entry, hidden": lambda t: np.array(False),
    "padding": lambda t: np.arange(t) < np.array([t, 3])[:, None, None],
    "one sentence wholly": lambda t: np.array([True, False])[:, None, None],
    "per head": lambda t: RNG.random((3, t)) < 0.6,
    "nothing": lambda t: np.zeros((2, 1, t), dtype=bool),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_masks_over_keys(kind, causal):
    q, k, v, d_y = draw(9)
    same_as_attention(q, k, v, MASKS[kind](9), d_y, 2, causal)


@given(strategies.local_attention(), st.data())
def test_drawn_inputs_give_what_attention_gives(example, data):
    q, k, v, mask = example.inputs
    d_y = data.draw(strategies.cotangents((*q.shape[:-1], v.shape[-1])))
    same_as_attention(q, k, v, mask, d_y, **example.options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_nothing_flows_from_beyond_r(r, causal):
    q, k, v, _ = draw(10, ())
    y, saved = local_attention.forward(q, k, v, radius=r, causal=causal)
    for i in range(10):
        d_y = np.zeros_like(y)
        d_y[i] = RNG.normal(size=y.shape[-1])
        d_q, d_k, d_v = local_attention.backward(saved, d_y)
        seen = band(10, r, causal)[i]
        assert (d_v[seen] != 0).all()
        for gradient in (d_k, d_v):
            assert (gradient[~seen] == 0).all()
        assert (d_q[np.arange(10) != i] == 0).all()
        far_k, far_v = np.where(seen[:, None], k, 1e4), np.where(seen[:, None], v, -1e4)
        np.testing.assert_array_equal(local_attention.forward(q, far_k, far_v, radius=r, causal=causal)[0][i], y[i])


def test_who_sees_only_itself_returns_its_value():
    q, k, v, _ = draw(6)
    np.testing.assert_array_equal(local_attention.forward(q, k, v, radius=0)[0], v)


def test_large_scores_are_stable():
    q, k, v, d_y = draw(7)
    y, saved = local_attention.forward(1e4 * q, k, v, radius=2)
    assert all(np.isfinite(x).all() for x in (y, *local_attention.backward(saved, d_y)))


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_not_a_square(causal):
    for length, r in ((1000, 4), (1000, 10), (1003, 10)):
        q, k, v, _ = draw(length, (2,))
        weights = local_attention.forward(q, k, v, radius=r, causal=causal)[1][-1]
        blocks = 2 if causal else 3
        assert weights.shape == (2, -(-length // r), r, blocks * r)
        assert weights.size <= 2 * (length + r) * blocks * r


@pytest.mark.numpy_only("tracemalloc sees the memory of the host")
@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_as_the_sentence_does(causal):
    def peaks(length):
        q, k, v, d_y = (x.astype(np.float32) for x in draw(length, (1,), 8, 8))
        mask = np.arange(length) < length - 3
        found = []
        for turn in range(2):
            tracemalloc.start()
            if turn == 0:
                _, saved = local_attention.forward(q, k, v, mask, radius=8, causal=causal)
            else:
                local_attention.backward(saved, d_y)
            found.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return np.array(found)

    one, two, four = (peaks(length) for length in (1024, 2048, 4096))
    assert (two < 2.1 * one).all()
    assert (four < 4.2 * one).all()
    assert (four < 4096**2 * 4 / 10).all()  # a square of float32 would be ten times as large
