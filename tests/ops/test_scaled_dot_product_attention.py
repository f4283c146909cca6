"""The operation scaled_dot_product_attention: values by loops, masks, blocks of queries, extremes, errors."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import scaled_dot_product_attention as attention

import minitransformer as mt
from minitransformer import Tensor
from minitransformer.testing import gradcheck, prove, strategies

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(4)


def slow_attention(q, k, v, mask, d_y):
    """Compute one head, the output and the gradients of q, k and v, entry by entry from the formulas."""
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
    np.testing.assert_allclose(y, np.broadcast_to(v.mean(axis=0), (2, 3)), rtol=0, atol=1e-15 * abs(v).sum())
    np.testing.assert_array_equal(saved[-1], 0.2)


def seen_by(mask, causal, shape):
    """Return which query sees which key, in full."""
    seen = np.array(np.broadcast_to(True if mask is None else mask, shape))
    for i in range(shape[-2] if causal else 0):
        seen[..., i, i + 1 :] = False
    return seen


@given(strategies.scaled_dot_product_attention(), st.data())
def test_hidden_keys_have_exactly_no_weight_and_no_gradient(example, data):
    q, k, v, mask = example.inputs
    y, saved = attention.forward(q, k, v, mask, **example.options)
    seen = seen_by(mask, example.options["causal"], (*q.shape[:-1], k.shape[-2]))
    if saved[-1] is not None:  # one block: its weights are kept
        assert saved[-1].shape == seen.shape
        assert (saved[-1][~seen] == 0).all()
    d_q, d_k, d_v = attention.backward(saved, data.draw(strategies.cotangents(y.shape)))
    blind = ~seen.any(axis=-1)
    assert (y[blind] == 0).all()
    assert (d_q[blind] == 0).all()
    unseen = ~seen.any(axis=-2)
    assert (d_k[unseen] == 0).all()
    assert (d_v[unseen] == 0).all()


# Causal attention, and blocks of queries


@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 4, 5, 9])
def test_causal_attention_in_blocks_against_loops(block_size):
    """Every key that a query needs takes part, and no other."""
    q, k, v, d_y = (RNG.normal(size=(3, 5, n)) for n in (4, 4, 2, 2))
    mask = RNG.random((3, 5, 5)) < 0.6
    mask[1, 2] = False
    mask[2] = True
    y, saved = attention.forward(q, k, v, mask, causal=True, block_size=block_size)
    found = (y, *attention.backward(saved, d_y))
    seen = seen_by(mask, True, (3, 5, 5))
    for n in range(3):
        for ours, slow in zip(found, slow_attention(q[n], k[n], v[n], seen[n], d_y[n]), strict=True):
            np.testing.assert_allclose(ours[n], slow, rtol=0, atol=2e-14)


MASKS = {
    "none": lambda t_q, t_k: None,
    "one for all": lambda t_q, t_k: RNG.random(t_k) < 0.7,
    "a single entry": lambda t_q, t_k: np.array(True),
    "padding": lambda t_q, t_k: RNG.random((2, 1, 1, t_k)) < 0.7,
    "queries": lambda t_q, t_k: RNG.random((t_q, 1)) < 0.7,
    "per head": lambda t_q, t_k: RNG.random((3, t_q, t_k)) < 0.7,
    "some rows wholly": lambda t_q, t_k: (RNG.random((2, 3, t_q, t_k)) < 0.7) & (np.arange(t_q) % 3 > 0)[:, None],
    "nothing": lambda t_q, t_k: np.zeros((t_q, t_k), dtype=bool),
}


# On a processor with AVX-512 a product of a few finite float32 numbers raised this flag once; the results are compared.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", MASKS)
def test_blocks_change_nothing(kind, dtype, causal):
    t_q, t_k = 11, 11 if causal else 13
    shapes = ((t_q, 5), (t_k, 5), (t_k, 7), (t_q, 7))
    q, k, v, d_y = (RNG.normal(size=(2, 3, *shape)).astype(dtype) for shape in shapes)
    mask = MASKS[kind](t_q, t_k)
    seen = seen_by(mask, causal, (2, 3, t_q, t_k))
    y, saved = attention.forward(q, k, v, seen)
    expected = (y, *attention.backward(saved, d_y))
    assert kind == "nothing" or all(np.abs(x).max() > 0.1 for x in expected)
    for block_size in (None, 1, 2, 4, 5, 10, np.int64(11), 12, 100):
        y, saved = attention.forward(q, k, v, mask, causal, block_size)
        for name, one, other in zip(("y", "q", "k", "v"), (y, *attention.backward(saved, d_y)), expected, strict=True):
            assert one.dtype == dtype
            error = np.abs(one - other).max() / max(1, np.abs(other).max())
            assert error <= 8 * np.finfo(dtype).eps, (name, block_size)
            # what sees nothing, or is seen by nobody, is 0 to the last bit
            axis = -2 if name in "kv" else -1
            assert (one[~seen.any(axis=axis)] == 0).all(), (name, block_size)


def test_a_hidden_key_may_be_anything_in_every_block():
    q, k, v = (RNG.normal(size=(7, n)) for n in (5, 5, 3))
    d_y = RNG.normal(size=(7, 3))
    y, saved = attention.forward(q, k, v, causal=True, block_size=3)
    before = (y[:4], attention.backward(saved, d_y * (np.arange(7) < 4)[:, None])[0][:4])
    k[4:], v[4:] = 1e4, -1e4
    y, saved = attention.forward(q, k, v, causal=True, block_size=3)
    after = (y[:4], attention.backward(saved, d_y * (np.arange(7) < 4)[:, None])[0][:4])
    for one, other in zip(after, before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.numpy_only("moves every entry: the same calls many times")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block_size", [None, 3])
def test_every_entry_of_the_gradients(block_size, causal):
    q, k, v = (RNG.normal(size=(2, *shape)) for shape in ((7, 2), (7 if causal else 5, 2), (7 if causal else 5, 3)))
    mask = RNG.random((2, 7, k.shape[1])) < 0.8
    mask[1, 4] = False
    operation = mt.ops.scaled_dot_product_attention
    prove(operation, (q, k, v, mask), causal=causal, block_size=block_size)
    report = gradcheck(lambda *x: operation(*x, mask, causal, block_size), (q, k, v), max_entries=1000)
    assert [x.comparisons for x in report.inputs] == [q.size, k.size, v.size]


def test_blocks_write_where_they_are_told_and_into_nothing_else():
    q, k, v, d_y = (RNG.normal(size=(2, 7, n)) for n in (4, 4, 6, 6))
    mask = RNG.random((7, 7)) < 0.7
    given_before = [x.copy() for x in (q, k, v, d_y, mask)]
    out = np.full((2, 6, 7), np.nan).swapaxes(-1, -2)
    y, saved = attention.forward(q, k, v, mask, True, 3, out=out)
    outs = tuple(np.full((2, x.shape[-1], 7), np.nan).swapaxes(-1, -2) for x in (q, k, v))
    gradients = attention.backward(saved, d_y, out=outs)
    assert y is out
    assert all(g is o for g, o in zip(gradients, outs, strict=True))
    again, saved = attention.forward(q, k, v, mask, True, 3)
    for one, other in zip((out, *outs), (again, *attention.backward(saved, d_y)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
    for x, before in zip((q, k, v, d_y, mask), given_before, strict=True):
        np.testing.assert_array_equal(x, before)


def peak_of(function):
    """Return what a function returns, and the most memory that it held at a time, in bytes."""
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def memory_of(t, causal, block_size):
    """Return the peaks of both passes, and how much is kept from one to the other beyond the inputs."""
    q, k, v, d_y = (RNG.normal(size=(t, 8)).astype(np.float32) for _ in range(4))
    mask = np.arange(t) < t - 3
    (_, saved), forward = peak_of(lambda: attention.forward(q, k, v, mask, causal, block_size))
    _, backward = peak_of(lambda: attention.backward(saved, d_y))
    *_, blocks, weights = saved
    kept = weights.nbytes if blocks is None else blocks[0].nbytes  # the weights, or the mask
    return forward, backward, kept


@pytest.mark.parametrize("causal", [False, True])
def test_memory_in_blocks_grows_with_the_length_not_with_its_square(causal):
    small, large = memory_of(1024, causal, 32), memory_of(2048, causal, 32)
    assert all(1.5 < two / one < 2.6 for one, two in zip(small[:2], large[:2], strict=True))
    assert large[2] <= 2048  # the mask, a byte for each key
    small, large_at_once = memory_of(1024, causal, None), memory_of(2048, causal, None)
    assert all(3.5 < two / one < 4.5 for one, two in zip(small, large_at_once, strict=True))
    assert all(10 * blocked < whole for blocked, whole in zip(large, large_at_once, strict=True))


@pytest.mark.parametrize("block_size", [None, 1, 2, 5])
@pytest.mark.parametrize(("t_q", "t_k"), [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_blocks_of_empty_axes(t_q, t_k, block_size):
    q, k, v, d_y = (RNG.normal(size=shape) for shape in ((2, t_q, 4), (2, t_k, 4), (2, t_k, 3), (2, t_q, 3)))
    for causal in {False, t_q == t_k}:
        y, saved = attention.forward(q, k, v, None, causal, block_size)
        np.testing.assert_array_equal(y, v if t_q == t_k else np.zeros((2, t_q, 3)))
        d_q, d_k, d_v = attention.backward(saved, d_y)
        np.testing.assert_array_equal(d_q, np.zeros_like(q))
        np.testing.assert_array_equal(d_k, np.zeros_like(k))
        np.testing.assert_array_equal(d_v, d_y if t_q == t_k else np.zeros_like(v))


# Extremes, empty axes, errors


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


def test_the_composed_form_keeps_the_type():
    q, k, v = (Tensor(np.ones(shape, dtype=np.float32)) for shape in ((2, 3), (4, 3), (4, 5)))
    mask = np.array([[True, False, True, True], [False] * 4])
    assert attention.reference(q, k, v, mask).dtype == np.float32
