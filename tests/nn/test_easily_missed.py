"""The whole model held against a second one in plain NumPy, seeds, and other things that once nobody noticed."""

import math

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.nn.module import xavier
from minitransformer.nn.options import ModelOptions

SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 2, "d_ff": 7, "dropout": 0.0, "dtype": "float64"}
SOURCE = np.array([[3, 1, 6, 2, 0], [2, 2, 5, 0, 0], [4, 3, 6, 1, 5]])  # 0 is padding
TARGET = np.array([[1, 5, 0, 4], [1, 2, 0, 0], [1, 3, 5, 7]])  # and in the middle too, where masks show
VARIANTS = toml_table(__file__, "VARIANTS")
variants = pytest.mark.parametrize("options", VARIANTS, ids=str)


def model_of(seed=0, alone=False, **options):
    """A model, or a decoder alone, whose biases and gains are random too."""
    kind, vocabularies = (mt.nn.LanguageModel, (9,)) if alone else (mt.nn.Transformer, (9, 9))
    model = kind(*vocabularies, **SIZES | options, seed=seed)
    rng = np.random.default_rng(11)
    for parameter in model.parameters():
        parameter.data[...] += asarray(rng.normal(0, 0.3, parameter.shape))
    return model.eval()


def reference(model, source, target):
    """Compute the same from the weights by name, with loops over layers and heads; return logits and maps.

    A decoder alone has no source: None.
    """
    p, o = model.state_dict(), model.options
    maps = {"cross": [], "encoder": [], "decoder": []}

    def normed(name, x):
        if o.norm == "rms":
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + o.layer_norm_eps) * p[f"{name}.gain"]
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + o.layer_norm_eps)
        return x * p[f"{name}.gain"] + p[f"{name}.bias"]

    def attended(name, x, memory, allowed, kind):
        h, g, dk, dv = o.n_heads, o.n_kv_heads or o.n_heads, o.key_size, o.value_size
        w, b = p[f"{name}.w_in"], p.get(f"{name}.b_in", np.zeros(h * dk + g * (dk + dv)))
        places = ((x, 0, h * dk), (memory, h * dk, g * dk), (memory, (h + g) * dk, g * dv))
        q, k, v = ((y @ w + b)[..., first : first + n] for y, first, n in places)
        heads, weights = [], []
        for i in range(h):
            shared = i // (h // g)
            one_q, one_k = q[..., i * dk : (i + 1) * dk], k[..., shared * dk : (shared + 1) * dk]
            if o.positions == "rotary" and kind != "cross":
                one_q, one_k = turned(one_q), turned(one_k)
            scores = one_q @ one_k.swapaxes(1, 2) / np.sqrt(dk)
            if o.positions == "alibi" and kind != "cross":
                scores = scores - 2 ** (-8 * (i + 1) / h) * abs(np.subtract.outer(*2 * [np.arange(x.shape[1])]))
            e = np.where(allowed, np.exp(scores), 0)
            weights.append(e / np.maximum(e.sum(-1, keepdims=True), 1e-300))
            heads.append(weights[-1] @ v[..., shared * dv : (shared + 1) * dv])
        maps[kind].append(np.stack(weights, axis=1))
        return np.concatenate(heads, axis=-1) @ p[f"{name}.w_out"] + p.get(f"{name}.b_out", 0)

    def fed(name, x):
        hidden = x @ p[f"{name}.w1"] + p[f"{name}.b1"]
        gates, values = np.split(hidden, 2, axis=-1) if o.activation == "swiglu" else (hidden, 1)
        hidden = np.vectorize(ACTIVATIONS[o.activation])(gates) * values
        return hidden @ p[f"{name}.w2"] + p[f"{name}.b2"]

    def residual(name, x, sublayer):
        norm = f"{name}.layer_norm"
        return x + sublayer(normed(norm, x)) if o.norm != "post" else normed(norm, x + sublayer(x))

    def table_of(side):
        return p[name] if (name := f"{side}_embedding.table") in p else p["source_embedding.table"]

    def embedded(side, ids):
        table = table_of(side)
        positions = p.get(f"{side}_embedding.positions", waves(o))
        if o.positions in ("rotary", "alibi"):
            positions = 0 * positions
        return table[ids] * (np.sqrt(o.d_model) if o.scale_embeddings else 1) + positions[: ids.shape[1]]

    def stacked(stack, x, own, memory=None, other=None):
        for i in range(o.n_layers if stack == "encoder" else o.n_decoder_layers or o.n_layers):
            n = f"{stack}.layers.{i}"
            parts = {1: lambda y, n=n: attended(f"{n}.self_attention", y, y, own, stack)}
            if memory is not None:
                parts[2] = lambda y, n=n: attended(f"{n}.cross_attention", y, memory, other, "cross")
            parts[3 if stack == "decoder" else 2] = lambda y, n=n: fed(f"{n}.feed_forward", y)
            for k, part in parts.items():
                x = residual(f"{n}.residual{k}", x, part)
        return normed(f"{stack}.final_norm", x) if o.final_norm or (o.norm != "post" and o.final_norm is None) else x

    causal = np.tril(np.ones((target.shape[1],) * 2, dtype=bool))
    real = None if source is None else source[:, None] != 0
    memory = None if source is None else stacked("encoder", embedded("source", source), real)
    x = stacked("decoder", embedded("target", target), causal & (target[:, None] != 0), memory, real)
    output = p["output"] if "output" in p else table_of("target")
    return x @ output.T + p.get("output_bias", 0), maps


ACTIVATIONS = {
    "relu": lambda a: max(a, 0.0),
    "silu": lambda a: a / (1 + math.exp(-a)),
    "gelu": lambda a: a * math.erfc(-a / math.sqrt(2)) / 2,
    "gelu_tanh": lambda a: a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2,
    "quick_gelu": lambda a: a / (1 + math.exp(-1.702 * a)),
}


ACTIVATIONS["swiglu"] = ACTIVATIONS["silu"]


def turned(x):
    """Turn each pair of features by its position, as complex numbers."""
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    for place in range(x.shape[1]):
        for i in range(pairs.shape[-1]):
            pairs[:, place, i] *= np.exp(1j * place * 10000 ** (-2 * i / x.shape[-1]))
    return np.stack((pairs.real, pairs.imag), axis=-1).reshape(x.shape)


def waves(options):
    """Return sinusoidal positions, entry by entry."""
    n = options.d_model // 2
    most = 2 * n if options.position_scale == "d_model" else 2 * n - 2
    encoding = np.zeros((16, 2 * n))
    for place in range(16):
        for i in range(n):
            angle = (place + options.first_position) * 10000 ** (-2 * i / most)
            sine, cosine = (2 * i, 2 * i + 1) if options.position_layout == "interleaved" else (i, n + i)
            encoding[place, sine], encoding[place, cosine] = math.sin(angle), math.cos(angle)
    return encoding


@variants
def test_a_decoder_alone_is_the_one_in_plain_numpy(options):
    model = model_of(**options, alone=True)
    logits, maps = reference(model, None, TARGET)
    np.testing.assert_allclose(to_numpy(model(TARGET).data), logits, rtol=1e-10, atol=1e-12)
    found = model.attention_maps(TARGET)
    assert list(found) == ["decoder"]
    for layer, expected in zip(found["decoder"], maps["decoder"], strict=True):
        np.testing.assert_allclose(layer, expected, rtol=1e-10, atol=1e-12)


@variants
def test_the_model_is_the_one_in_plain_numpy(options):
    model = model_of(**options)
    logits, maps = reference(model, SOURCE, TARGET)
    np.testing.assert_allclose(to_numpy(model(SOURCE, TARGET).data), logits, rtol=1e-10, atol=1e-12)
    found = model.attention_maps(SOURCE, TARGET)
    for kind, layers in maps.items():
        for layer, expected in zip(found[kind], layers, strict=True):
            np.testing.assert_allclose(layer, expected, rtol=1e-10, atol=1e-14)


@cases_from_toml
def test_hypotheses_see_what_their_parents_saw(options):
    model, rng = model_of(**options), np.random.default_rng(3)
    cache, pasts = model.new_cache(SOURCE), [[[]] for _ in SOURCE]
    parents, tokens = np.zeros((3, 1), dtype=np.int64), np.ones((3, 1), dtype=np.int64)
    for step in range(12):
        pasts = [
            [[*of_one[p], t] for p, t in zip(ps, ts, strict=True)]
            for of_one, ps, ts in zip(pasts, parents.tolist(), tokens.tolist(), strict=True)
        ]
        logits = to_numpy(model.step(tokens, cache, parents))
        for i, of_one in enumerate(pasts):
            expected = reference(model, SOURCE[i : i + 1].repeat(len(of_one), axis=0), np.array(of_one))[0][:, -1]
            np.testing.assert_allclose(logits[i], expected, rtol=1e-10, atol=1e-12)
        # At first each sentence has one hypothesis, which sees all of it; later one that does not.
        shape = (3, (1, 1, 3, 3, 1, 1, 3, 2, 3, 3, 3, 3)[step])
        parents, tokens = rng.integers(0, len(pasts[0]), shape), rng.integers(3, 9, shape)
        if step % 2:
            parents[:] = parents[:, :1]  # so that nobody is left who sees the others' past, and it is dropped
    assert len(cache.target[0]) < 1 + 11 * 3


# Seeds and dropout


def test_weights_and_dropout_follow_the_seed_each():
    def of(seed):
        model = mt.nn.Transformer(9, 9, **SIZES | {"dropout": 0.4, "positions": "learned"}, seed=seed)
        return model.state_dict(), model.rng.bit_generator.random_raw(8).tolist()

    (first, drawn), (same, again), (other, another) = of(5), of(5), of(6)
    assert drawn == again != another
    for name, values in first.items():
        np.testing.assert_array_equal(values, same[name])
        if np.ptp(values):  # biases and gains begin as zeros and ones
            assert not np.array_equal(values, other[name]), name


# What is drawn, named and refused


def test_a_gate_and_its_values_are_drawn_as_two_matrices():
    options = mt.nn.ModelOptions(d_model=40, d_ff=200, n_heads=1, n_layers=1, activation="swiglu")
    w1 = to_numpy(mt.nn.FeedForward(options, np.random.default_rng(0)).w1.data)
    assert w1.shape == (40, 400)
    np.testing.assert_allclose([abs(w1[:, :200]).max(), abs(w1[:, 200:]).max()], np.sqrt(6 / 240), rtol=0.01)


def test_matrices_are_drawn_for_both_their_sides():
    drawn = xavier(np.random.default_rng(0), 40, 200)
    limit = (6 / 240) ** 0.5
    assert 0.98 * limit < np.abs(drawn).max() <= limit
    model = mt.nn.Transformer(50, 60, d_model=40, n_heads=2, n_layers=1, d_ff=200, share_embeddings=False)
    for table in (model.source_embedding.table, model.target_embedding.table, model.output):
        assert to_numpy(table.data).std() == pytest.approx(40**-0.5, rel=0.05)
    # each projection is a matrix of its own, (40, 40), not a part of a wider one
    assert np.abs(to_numpy(model.encoder.layers[0].self_attention.w_in.data)).max() > 0.98 * (6 / 80) ** 0.5


def size_after(kind, d_model, d_ff, seed):
    """Return the mean square of output and gradient, for rows and a gradient of mean square 1."""
    options = ModelOptions(d_model=d_model, n_heads=4, d_ff=d_ff, n_layers=1, dtype="float64")
    part, draw = kind(options, np.random.default_rng(seed)), np.random.default_rng(seed + 1)
    x = mt.Tensor(asarray(draw.normal(size=(2, 20, d_model))), requires_grad=True)
    y = part(x)
    y.backward(asarray(draw.normal(size=y.shape)))
    return [float((to_numpy(found) ** 2).mean()) for found in (y.data, x.grad)]


@pytest.mark.parametrize(("d", "f"), [(64, 64), (64, 256), (128, 256)])
def test_xavier_shrinks_values_and_gradients_of_a_feed_forward_network_alike(d, f):
    found = np.mean([size_after(mt.nn.FeedForward, d, f, seed) for seed in range(5)], axis=0)
    np.testing.assert_allclose(found, 2 * d * f / (d + f) ** 2, rtol=0.15)


def test_a_new_attention_layer_is_nearly_a_mean():
    weights = np.exp(np.random.default_rng(0).normal(size=(2000, 20)))
    weights /= weights.sum(axis=1, keepdims=True)
    expected = (weights**2).sum(axis=1).mean() + 1 / 64  # tutorial 19, equation (4)
    found = np.mean([size_after(mt.nn.MultiHeadAttention, 64, 8, seed)[0] for seed in range(5)])
    assert found == pytest.approx(expected, rel=0.15)


def test_each_side_has_ids_of_its_own_vocabulary():
    model = mt.nn.Transformer(9, 4, **SIZES).eval()
    assert model([[8, 2]], [[1, 3]]).shape == (1, 2, 4)
    with pytest.raises(IndexError, match="target ids"):
        model([[8, 2]], [[1, 8]])
    with pytest.raises(IndexError, match="source ids"):
        model([[9, 2]], [[1, 3]])
