"""The sub-layers and the layers, each on its own."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.nn import (
    Cache,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    Module,
    MultiHeadAttention,
    Parameter,
    Residual,
)
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


def make(kind, *sizes, **options):
    return randomised(kind(*sizes, np.random.default_rng(2), dtype="float64", **options))


def holders(module, prefix=""):
    """Return owner and attribute of each parameter, in the order of ``parameters()``."""
    found = []
    for name, value in list(vars(module).items()):
        if isinstance(value, Parameter):
            found.append((module, name))
        elif isinstance(value, Module):
            found += holders(value)
    return found


def check(module, call, *inputs):
    """Hold the gradients of inputs and parameters against finite differences."""
    owners = holders(module)
    arrays = [p.numpy().copy() for p in module.parameters()]

    def function(*tensors):
        for (owner, name), tensor in zip(owners, tensors[len(inputs) :], strict=True):
            setattr(owner, name, tensor)
        return call(*tensors[: len(inputs)])

    assert len(owners) == len(arrays)
    gradcheck(function, [*inputs, *arrays], max_entries=24, n_directions=3)


@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(bias):
    attention = make(MultiHeadAttention, 6, 2, d_k=3, d_v=1, bias=bias)
    assert attention.w_in.shape == (6, 2 * (3 + 3 + 1))
    assert attention.w_out.shape == (2 * 1, 6)
    check(attention, lambda x: attention(x, mask=CAUSAL), X)
    attention = make(MultiHeadAttention, 6, 2, d_k=3, d_v=1, bias=bias)
    check(attention, lambda x, memory: attention(x, memory, PADDING), X, MEMORY)


def test_feed_forward_and_layer_norm():
    feed_forward = randomised(FeedForward(6, 7, np.random.default_rng(2), "float64"))
    check(feed_forward, feed_forward, X)
    norm = randomised(LayerNorm(6, "float64"))
    check(norm, norm, X)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual(norm):
    residual = randomised(Residual(6, 0.3, norm, "float64"))
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


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_and_decoder_layers(norm):
    layer = make(EncoderLayer, 6, 2, 7, norm=norm, d_k=3, d_v=1)
    check(layer, lambda x: layer(x, PADDING), MEMORY)
    layer = make(DecoderLayer, 6, 2, 7, norm=norm, d_k=3, d_v=1, attention_bias=True)
    check(layer, lambda x, memory: layer(x, memory, CAUSAL, PADDING), X, MEMORY)


def test_a_layer_used_twice_before_backward_gives_the_sum():
    """Nothing that a backward pass needs is kept on the layer, where the second use would overwrite the first."""
    layer = make(DecoderLayer, 6, 2, 7, d_k=3, d_v=1)
    rng = np.random.default_rng(3)
    d_one, d_two = rng.standard_normal((2, 4, 6)), rng.standard_normal((2, 3, 6))

    def run(first, second):
        for parameter in layer.parameters():
            parameter.grad = None
        x, y = mt.Tensor(X, requires_grad=True), mt.Tensor(-(X[:, 1:] ** 2), requires_grad=True)
        memory = mt.Tensor(MEMORY, requires_grad=True)
        outputs = []
        if first:
            outputs.append((layer(x, memory, CAUSAL, PADDING), d_one))
        if second:
            outputs.append((layer(y, memory, None, PADDING), d_two))
        for output, d in outputs:
            output.backward(d)
        tensors = [x, y, memory, *layer.parameters()]
        return [np.zeros(t.shape) if t.grad is None else to_numpy(t.grad) for t in tensors]

    for both, one, two in zip(run(True, True), run(True, False), run(False, True), strict=True):
        assert np.array_equal(both, one + two)
        assert both.any()


def test_a_layer_applied_to_its_own_output():
    layer = make(EncoderLayer, 6, 2, 7)
    check(layer, lambda x: layer(layer(x, PADDING), PADDING), MEMORY)


def test_one_tensor_as_queries_and_memory():
    attention = make(MultiHeadAttention, 6, 2)
    check(attention, lambda x: attention(x, x, CAUSAL), X)
    x = mt.Tensor(X)
    np.testing.assert_allclose(attention(x, x, CAUSAL).numpy(), attention(x, None, CAUSAL).numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("given", [None, MEMORY])
def test_attention_with_a_cache_or_maps_computes_the_same(given, bias):
    attention = make(MultiHeadAttention, 6, 2, d_k=3, d_v=1, bias=bias)
    x, memory = mt.Tensor(X), None if given is None else mt.Tensor(given)
    mask = CAUSAL if given is None else PADDING
    expected = attention(x, memory, mask).numpy()
    maps, cache = [], Cache()
    with mt.no_grad():
        found = attention(x, memory, mask, cache, maps).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    length = 4 if given is None else 5
    assert len(cache) == length
    assert cache.keys.shape == (2, 2, length, 3)
    assert cache.values.shape == (2, 2, length, 1)
    assert maps[0].shape == (2, 2, 4, length)


def test_a_gradient_that_would_be_lost_is_refused():
    """Of the weights and the memory too, not of x alone."""
    attention = make(MultiHeadAttention, 6, 2)
    for memory in (None, mt.Tensor(MEMORY, requires_grad=True)):
        for p in attention.parameters():
            p.requires_grad = memory is None
        with pytest.raises(RuntimeError, match="no gradient flows through a cache or past recorded maps"):
            attention(mt.Tensor(X), memory, maps=[])


def test_keys_and_values_of_a_memory_are_computed_once():
    attention = make(MultiHeadAttention, 6, 2)
    cache = Cache()
    with mt.no_grad():
        first = attention(mt.Tensor(X), mt.Tensor(MEMORY), None, cache).numpy()
        keys = cache.keys
        second = attention(mt.Tensor(X), mt.Tensor(0 * MEMORY), None, cache).numpy()
    assert cache.keys is keys
    assert np.array_equal(first, second)


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
    cache, rooms = Cache(), set()
    for first in range(17):
        cache.extend(*numbered(2, 1, first))
        rooms.add(cache._room[0].shape[2])
    assert rows_and_positions(cache) == [[*range(17)], [*range(100, 117)]]
    assert rooms == {1, 2, 4, 8, 16, 32}
    cache.extend(*numbered(2, 40, 17))
    assert rows_and_positions(cache) == [[*range(57)], [*range(100, 157)]]


def test_a_cache_keeps_a_copy_of_what_it_is_given():
    cache, (keys, values) = Cache(), numbered(1, 2)
    cache.extend(keys, values)
    keys[...] = 7
    assert rows_and_positions(cache) == [[0, 1]]


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 1], [1], [2, 0, 0], [1, 2, 0], [], [0, 0, 1, 1, 2, 2, 0]])
def test_a_cache_keeps_rows(rows):
    cache = Cache()
    cache.extend(*numbered(3, 2))
    cache.extend(*numbered(3, 1, 2))
    cache.select(rows)
    assert rows_and_positions(cache) == [[100 * row + i for i in range(3)] for row in rows]
    cache.extend(*numbered(len(rows), 2, 3))
    assert [row[3:] for row in rows_and_positions(cache)] == [[100 * i + 3, 100 * i + 4] for i in range(len(rows))]


def test_a_cache_keeps_positions():
    cache = Cache()
    cache.keep([[0]])  # there is nothing yet
    cache.extend(*numbered(2, 5))
    cache.keep(np.array([[0, 3], [4, 1]]))
    assert rows_and_positions(cache) == [[0, 3], [104, 101]]
    cache.extend(*numbered(2, 1, 9))
    assert rows_and_positions(cache) == [[0, 3, 9], [104, 101, 109]]


@pytest.mark.parametrize("block_size", [None, 1, 3])
def test_causal_attention_is_attention_with_the_causal_mask(block_size):
    whole, attention = (
        make(MultiHeadAttention, 6, 2, d_k=3, d_v=1, bias=True, block_size=b) for b in (None, block_size)
    )
    x, padding = mt.Tensor(X), PADDING[..., :4]
    expected = whole(x, mask=CAUSAL & padding).numpy()
    np.testing.assert_allclose(attention(x, mask=padding, causal=True).numpy(), expected, rtol=0, atol=1e-14)
    with mt.no_grad():
        for cache, maps in ((Cache(), None), (None, []), (Cache(), [])):
            found = attention(x, None, padding, cache, maps, causal=True).numpy()
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
            if maps is not None:
                assert maps[0].shape == (2, 2, 4, 4)
                assert not maps[0][..., ~CAUSAL].any()
    check(attention, lambda x: attention(x, mask=padding, causal=True), X)


@pytest.mark.parametrize("block_size", [None, 1, 3])
def test_a_decoder_layer_sees_no_later_position_whatever_the_mask(block_size):
    layer = make(DecoderLayer, 6, 2, 7, d_k=3, d_v=1, attention_block=block_size)
    memory = mt.Tensor(MEMORY)
    assert np.array_equal(layer(mt.Tensor(X), memory).numpy(), layer(mt.Tensor(X), memory, CAUSAL).numpy())
    x = mt.Tensor(X, requires_grad=True)
    layer(x, memory)[:, 1].backward(np.random.default_rng(3).standard_normal((2, 6)))
    assert not x.grad[:, 2:].any()
    assert x.grad[:, :2].all()


@pytest.mark.parametrize("block_size", [0, -1, 2.0, True])
def test_attention_refuses_block_sizes(block_size):
    with pytest.raises(ValueError, match="MultiHeadAttention: block_size must be a whole number of at least 1, found"):
        MultiHeadAttention(6, 2, np.random.default_rng(0), block_size=block_size)


@pytest.mark.parametrize("sizes", [(0, 2), (6, 0), (-6, 2), (6, -2), (6.0, 2)])
def test_attention_refuses_sizes(sizes):
    with pytest.raises(ValueError, match=r"MultiHeadAttention: .* must be a whole number of at least 1, found"):
        MultiHeadAttention(*sizes, np.random.default_rng(0))


@pytest.mark.parametrize("sizes", [{"d_k": 0}, {"d_v": 0}, {"d_k": -1}, {"d_k": 3, "d_v": 1.5}])
def test_attention_refuses_sizes_of_heads(sizes):
    with pytest.raises(ValueError, match=r"MultiHeadAttention: d_[kv] must be a whole number of at least 1, found"):
        MultiHeadAttention(6, 2, np.random.default_rng(0), **sizes)


def test_attention_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="d_model 6 is not divisible by n_heads 4"):
        MultiHeadAttention(6, 4, np.random.default_rng(0))
    attention = make(MultiHeadAttention, 6, 4, d_k=2)
    assert (attention.d_k, attention.d_v) == (2, 2)
    attention = make(MultiHeadAttention, 6, 4, d_k=2, d_v=5)
    assert (attention.d_k, attention.d_v) == (2, 5)
    attention = make(MultiHeadAttention, 6, 3, d_k=4)
    assert (attention.d_k, attention.d_v) == (4, 2)


@pytest.mark.parametrize("sizes", [(0, 7), (6, 0), (6, None)])
def test_feed_forward_refuses_sizes(sizes):
    with pytest.raises(ValueError, match=r"FeedForward: d_\w+ must be a whole number of at least 1, found"):
        FeedForward(*sizes, np.random.default_rng(0))


@pytest.mark.parametrize("kind", [lambda **o: Residual(6, 0.1, **o), lambda **o: make(EncoderLayer, 6, 2, 7, **o)])
def test_an_unknown_norm_is_refused(kind):
    with pytest.raises(ValueError, match="norm must be 'post' or 'pre', found 'middle'"):
        kind(norm="middle")


def test_attention_refuses_another_batch():
    attention = make(MultiHeadAttention, 6, 2)
    with pytest.raises(ValueError, match=r"multi_head_attention: .*do not match for 2 heads"):
        attention(mt.Tensor(X), mt.Tensor(MEMORY[:1]))


def test_modules_find_their_parts():
    class Two(Module):
        def __init__(self):
            self.first = LayerNorm(3)
            self.more = [LayerNorm(2), LayerNorm(4)]
            self.weight = Parameter(np.ones(5))
            self.again = self.weight
            self.size = 7

    model = Two()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["first.gain", "first.bias", "more.0.gain", "more.0.bias", "more.1.gain", "more.1.bias", "weight"]
    assert [p.size for p in model.parameters()] == [3, 3, 2, 2, 4, 4, 5]
    assert all(isinstance(p, mt.Tensor) and p.requires_grad for p in model.parameters())
    model.eval()
    assert not model.more[1].training
    assert Two().training


def test_initial_weights():
    attention = MultiHeadAttention(64, 4, np.random.default_rng(0))
    w_q, w_k, w_v = np.split(attention.w_in.numpy(), 3, axis=1)
    limit = (6 / (64 + 64)) ** 0.5
    for w in (w_q, w_k, w_v, attention.w_out.numpy()):  # each drawn as a matrix of its own
        assert 0.98 * limit < abs(w).max() <= limit * (1 + 1e-6)
        # uniform: variance limit² / 3, and its mean within five standard deviations of 0
        assert abs(w.mean()) < 5 * limit / (3 * w.size) ** 0.5
        np.testing.assert_allclose(w.var(), limit**2 / 3, rtol=0.1)
    norm = LayerNorm(3)
    assert norm.gain.data.tolist() == [1, 1, 1]
    assert norm.bias.data.tolist() == [0, 0, 0]
