"""The sub-layers and the layers, each on its own."""

import numpy as np
import pytest
from small_models import putting

import minitransformer as mt
from minitransformer import nn
from minitransformer.arrays import asarray, to_numpy
from minitransformer.override import override
from minitransformer.testing import gradcheck

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (2, 4, 6))  # (B, Tq, D)
MEMORY = RNG.uniform(-1, 1, (2, 5, 6))  # (B, Tk, D)
CAUSAL = to_numpy(mt.ops.causal_mask(4))
PADDING = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=bool)[:, None, None]


def randomised(module):
    rng = np.random.default_rng(1)
    for parameter in module.parameters():
        values = rng.uniform(0.3, 0.9, parameter.shape) * rng.choice([-1.0, 1.0], parameter.shape)
        parameter.data = asarray(values)
    return module


def check(module, call, *inputs):
    """Hold the gradients of inputs and parameters against finite differences."""
    put, arrays = putting(module), [p.numpy().copy() for p in module.parameters()]

    def function(*tensors):
        put(tensors[len(inputs) :])
        return call(*tensors[: len(inputs)])

    gradcheck(function, [*inputs, *arrays], max_entries=10, n_directions=2)


SIZES = nn.ModelOptions(d_model=6, n_heads=2, d_ff=7, dropout=0.3, dtype="float64")


def make(kind, **options):
    return randomised(kind(SIZES.changed(**options), np.random.default_rng(2)))


@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(bias):
    attention = make(nn.MultiHeadAttention, d_k=3, d_v=1, attention_bias=bias)
    assert attention.w_in.shape == (6, 2 * (3 + 3 + 1))
    assert attention.w_out.shape == (2 * 1, 6)
    check(attention, lambda x: attention(x, mask=CAUSAL), X)
    attention = make(nn.MultiHeadAttention, d_k=3, d_v=1, attention_bias=bias)
    check(attention, lambda x, memory: attention(x, memory, PADDING), X, MEMORY)


def test_feed_forward_and_layer_norm():
    feed_forward = make(nn.FeedForward)
    check(feed_forward, feed_forward, X)
    norm = randomised(nn.LayerNorm(SIZES))
    check(norm, norm, X)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual(norm):
    residual = randomised(nn.Residual(SIZES.changed(norm=norm)))
    check(residual, lambda x: residual(x, lambda y: y * y, np.random.default_rng(7)), X)
    x = mt.Tensor(X)
    plain = residual(x, lambda y: y.tanh(), None).numpy()
    normed = residual.layer_norm
    expected = normed(x + x.tanh()) if norm == "post" else x + normed(x).tanh()
    assert np.array_equal(plain, expected.numpy())
    # dropout acts on what the sub-layer returns, before the sum
    dropped = residual(x, lambda y: y * 0 + 1, np.random.default_rng(7)).numpy()
    kept = mt.ops.dropout(mt.Tensor(np.ones(X.shape)), 0.3, np.random.default_rng(7))
    assert np.array_equal(dropped, (normed(x + kept) if norm == "post" else x + kept).numpy())


def test_every_sub_layer_has_as_many_features_as_the_model():
    """So that each output can be added to its input (section 3.1)."""
    attention = make(nn.MultiHeadAttention, d_k=3, d_v=1)
    embedding = mt.nn.Embedding(nn.Parameter(np.zeros((5, SIZES.d_model))), SIZES, np.random.default_rng(0))
    outputs = [
        attention(mt.Tensor(X)),
        attention(mt.Tensor(X), mt.Tensor(MEMORY)),
        make(nn.FeedForward)(mt.Tensor(X)),
        embedding(np.zeros((2, 4), dtype=int)),
    ]
    assert [output.shape for output in outputs] == 4 * [(2, 4, SIZES.d_model)]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_and_decoder_layers(norm):
    layer = make(nn.EncoderLayer, norm=norm, d_k=3, d_v=1)
    check(layer, lambda x: layer(x, PADDING), MEMORY)
    layer = make(nn.DecoderLayer, norm=norm, d_k=3, d_v=1, attention_bias=True)
    check(layer, lambda x, memory: layer(x, memory, CAUSAL, PADDING), X, MEMORY)


def test_a_layer_applied_to_its_own_output():
    layer = make(nn.EncoderLayer)
    check(layer, lambda x: layer(layer(x, PADDING), PADDING), MEMORY)


def test_one_tensor_as_queries_and_memory():
    attention = make(nn.MultiHeadAttention)
    check(attention, lambda x: attention(x, x, CAUSAL), X)
    x = mt.Tensor(X)
    np.testing.assert_allclose(attention(x, x, CAUSAL).numpy(), attention(x, None, CAUSAL).numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("given", [None, MEMORY])
def test_attention_with_maps_computes_the_same(given, bias):
    attention = make(nn.MultiHeadAttention, d_k=3, d_v=1, attention_bias=bias)
    x, memory = mt.Tensor(X), None if given is None else mt.Tensor(given)
    mask = CAUSAL if given is None else PADDING
    expected = attention(x, memory, mask).numpy()
    maps = []
    with mt.no_grad():
        found = attention(x, memory, mask, maps=maps).numpy()
    assert np.array_equal(found, expected)
    assert maps[0].shape == (2, 2, 4, 4 if given is None else 5)
    assert not to_numpy(maps[0])[~np.broadcast_to(mask, maps[0].shape)].any()


def test_a_gradient_that_would_be_lost_is_refused():
    """Of the weights and the memory too, not of x alone."""
    attention = make(nn.MultiHeadAttention)
    for memory in (None, mt.Tensor(MEMORY, requires_grad=True)):
        for p in attention.parameters():
            p.requires_grad = memory is None
        with pytest.raises(RuntimeError, match="no gradient flows past recorded maps"):
            attention(mt.Tensor(X), memory, maps=[])


@pytest.mark.parametrize(
    ("options", "rows"), [({}, [2, 2]), ({"attention_block": 3}, [3, 1]), ({"recompute": True}, [4])]
)
def test_where_no_gradient_is_wanted_few_queries_are_worked_through_at_a_time(monkeypatch, options, rows):
    """A long sentence then needs no square of its length. What recomputing repeats has one rounding both times."""
    attention, found = make(nn.MultiHeadAttention, **options), []
    monkeypatch.setattr(nn.layers, "QUERIES", 2)
    softmax = mt.ops.softmax.forward

    def count_rows(x, *args, **options):
        found.append(x.shape[-2])
        return softmax(x, *args, **options)

    with override(mt.ops.softmax, forward=count_rows):
        with mt.no_grad():
            y = attention(mt.Tensor(X)).numpy()
        assert found == rows
        found.clear()
        np.testing.assert_allclose(attention(mt.Tensor(X)).numpy(), y, rtol=0, atol=1e-14)
        assert found == ([3, 1] if "attention_block" in options else [4])


# With a cache, a step at a time


@pytest.mark.parametrize("n_kv_heads", [2, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("block_size", [None, 1, 3])
def test_attention_in_steps_computes_the_same(block_size, bias, n_kv_heads):
    """Several positions at once too, with a mask that says which of them each sees."""
    options = {"attention_bias": bias, "attention_block": block_size, "n_kv_heads": n_kv_heads}
    attention = make(nn.MultiHeadAttention, d_k=3, d_v=1, **options)
    maps = []
    with mt.no_grad():
        expected = attention(mt.Tensor(X), causal=True, maps=maps).numpy()
    for lengths in ([1, 1, 1, 1], [3, 1], [1, 3]):
        cache, first, parts = nn.Cache(np.ones((2, 0), dtype=bool)), 0, []
        for n in lengths:
            mask, rows = asarray(CAUSAL[first : first + n, : first + n]), mt.Tensor(X[:, first : first + n])
            with mt.no_grad():
                parts.append(attention(rows, mask=mask, maps=maps, cache=cache).numpy())
            np.testing.assert_allclose(maps[-1], maps[0][:, :, first : first + n, : first + n], rtol=0, atol=1e-14)
            first += n
            cache.advance()
            (stored,) = cache.target
            assert (stored.keys.shape, stored.values.shape) == ((2, n_kv_heads, first, 3), (2, n_kv_heads, first, 1))
        np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, rtol=0, atol=1e-14)


def test_a_memory_is_projected_once():
    attention, x = make(nn.MultiHeadAttention, d_k=3, d_v=1), mt.Tensor(X)
    expected, cache = attention(x, x).numpy(), nn.Cache(np.ones((2, 4), dtype=bool))
    with mt.no_grad():
        np.testing.assert_array_equal(attention(x, x, cache=cache).numpy(), expected)
        cache.advance()
        np.testing.assert_array_equal(attention(x, x * 0, cache=cache).numpy(), expected)
    assert [len(stored) for stored in cache.source] == [4]


def test_no_gradient_flows_through_a_cache():
    attention, cache = make(nn.MultiHeadAttention), nn.Cache(np.ones((2, 0), dtype=bool))
    with pytest.raises(RuntimeError, match=r"cache.*no_grad"):
        attention(mt.Tensor(X), cache=cache)
    assert not cache.target


def numbered(n, length, first=0):
    """Return keys (n, 2, length, 3) and values (n, 2, length, 1) that say where they are."""
    keys = (
        100.0 * np.arange(n)[:, None, None, None] + np.arange(first, first + length)[:, None] + np.zeros((n, 2, 1, 3))
    )
    return asarray(keys), asarray(-keys[..., :1])


def rows_and_positions(cache):
    """Return which row and position each key was given, after seeing that the values are the keys' own."""
    keys, values = to_numpy(cache.keys), to_numpy(cache.values)
    assert (keys == keys[:, :1, :, :1]).all()
    assert np.array_equal(values, -keys[..., :1])
    return keys[:, 0, :, 0].tolist()


def test_a_cache_grows_by_doubling():
    cache, lengths = nn.KeysAndValues(), set()
    for first in range(17):
        cache.extend(*numbered(2, 1, first))
        lengths.add(cache._buffers[0].shape[2])
    assert rows_and_positions(cache) == [[*range(17)], [*range(100, 117)]]
    assert lengths == {1, 2, 4, 8, 16, 32}
    cache.extend(*numbered(2, 40, 17))
    assert rows_and_positions(cache) == [[*range(57)], [*range(100, 157)]]


def test_a_cache_keeps_a_copy_of_what_it_is_given():
    cache, (keys, values) = nn.KeysAndValues(), numbered(1, 2)
    cache.extend(keys, values)
    keys[...] = 7
    assert rows_and_positions(cache) == [[0, 1]]


@pytest.mark.parametrize(
    "rows", [[0, 1, 2], [2, 1], [1], [2, 0, 0], [1, 2, 0], [], [0, 1, 2, 1], [0, 0, 1, 1, 2, 2, 0]]
)
def test_a_cache_keeps_rows(rows):
    cache = nn.KeysAndValues()
    cache.select(rows)  # there is nothing yet
    cache.extend(*numbered(3, 2))
    cache.extend(*numbered(3, 1, 2))
    cache.select(rows)
    assert rows_and_positions(cache) == [[100 * row + i for i in range(3)] for row in rows]
    cache.extend(*numbered(len(rows), 2, 3))
    assert [row[3:] for row in rows_and_positions(cache)] == [[100 * i + 3, 100 * i + 4] for i in range(len(rows))]


def test_a_cache_keeps_positions():
    cache = nn.KeysAndValues()
    cache.keep([[0]])  # there is nothing yet
    cache.extend(*numbered(2, 5))
    cache.keep(np.array([[0, 3], [4, 1]]))
    assert rows_and_positions(cache) == [[0, 3], [104, 101]]
    cache.extend(*numbered(2, 1, 9))
    assert rows_and_positions(cache) == [[0, 3, 9], [104, 101, 109]]


@pytest.mark.parametrize("block_size", [None, 1, 3])
def test_causal_attention_is_attention_with_the_causal_mask(block_size):
    whole, attention = (
        make(nn.MultiHeadAttention, d_k=3, d_v=1, attention_bias=True, attention_block=b) for b in (None, block_size)
    )
    x, padding = mt.Tensor(X), PADDING[..., :4]
    expected = whole(x, mask=CAUSAL & padding).numpy()
    np.testing.assert_allclose(attention(x, mask=padding, causal=True).numpy(), expected, rtol=0, atol=1e-14)
    maps = []
    with mt.no_grad():
        found = attention(x, None, padding, True, maps).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert maps[0].shape == (2, 2, 4, 4)
    assert not maps[0][..., ~CAUSAL].any()
    check(attention, lambda x: attention(x, mask=padding, causal=True), X)


def test_sizes_of_heads_follow_from_the_others():
    for n_heads, d_k, d_v, sizes in (
        (2, None, None, (3, 3)),
        (4, 2, None, (2, 2)),
        (4, 2, 5, (2, 5)),
        (3, 4, None, (4, 2)),
    ):
        options = SIZES.changed(n_heads=n_heads, d_k=d_k, d_v=d_v)
        assert (options.key_size, options.value_size) == sizes
        attention = nn.MultiHeadAttention(options, np.random.default_rng(0))
        assert attention.w_in.shape == (6, n_heads * (2 * sizes[0] + sizes[1]))
        assert attention.w_out.shape == (n_heads * sizes[1], 6)


def test_modules_find_their_parts():
    class Two(nn.Module):
        def __init__(self):
            self.first, *self.more = (nn.LayerNorm(nn.ModelOptions(d_model=n, n_heads=1)) for n in (3, 2, 4))
            self.weight = nn.Parameter(np.ones(5))
            self.again = self.weight
            self.size = 7

    model = Two()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["first.gain", "first.bias", "more.0.gain", "more.0.bias", "more.1.gain", "more.1.bias", "weight"]
    assert [p.size for p in model.parameters()] == [3, 3, 2, 2, 4, 4, 5]
    assert all(isinstance(p, mt.Tensor) and p.requires_grad for p in model.parameters())


def test_initial_weights():
    attention = nn.MultiHeadAttention(nn.ModelOptions(d_model=64, n_heads=4), np.random.default_rng(0))
    w_q, w_k, w_v = np.split(attention.w_in.numpy(), 3, axis=1)
    limit = (6 / (64 + 64)) ** 0.5
    for w in (w_q, w_k, w_v, attention.w_out.numpy()):  # each drawn as a matrix of its own
        assert 0.98 * limit < abs(w).max() <= limit * (1 + 1e-6)
        # uniform: variance limit² / 3, and its mean within five standard deviations of 0
        assert abs(w.mean()) < 5 * limit / (3 * w.size) ** 0.5
        np.testing.assert_allclose(w.var(), limit**2 / 3, rtol=0.1)
    norm = nn.LayerNorm(SIZES)
    assert norm.gain.data.tolist() == [1] * 6
    assert norm.bias.data.tolist() == [0] * 6
