"""The whole model: its gradients, and the properties that the paper promises."""

import inspect
import re
import tracemalloc
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from small_models import places, putting, twice
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.arrays import asarray, backend, to_numpy, xp
from minitransformer.testing import gradcheck

# Sizes differ, so that no axis can be taken for another.
SOURCE_VOCAB, TARGET_VOCAB = 9, 8
SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 1, "d_ff": 7, "d_k": 3, "d_v": 1, "max_length": 6, "dropout": 0.0}
SOURCE = np.array([[3, 1, 6, 2, 0], [2, 2, 5, 0, 0], [4, 3, 6, 1, 5]])  # 0 is padding
TARGET = np.array([[1, 5, 4, 4], [1, 2, 0, 0], [1, 3, 5, 0]])
LABELS = np.array([[5, 4, 4, 2], [2, 3, 0, 0], [3, 5, 2, 0]])


def model_of(source_vocab=SOURCE_VOCAB, target_vocab=TARGET_VOCAB, **options):
    """Return a small model in float64 whose parameters, gains and biases too, are random."""
    model = mt.nn.Transformer(source_vocab, target_vocab, **SIZES | {"dtype": "float64"} | options)
    rng = np.random.default_rng(11)
    for parameter in model.parameters():
        values = rng.uniform(0.3, 0.9, parameter.shape) * rng.choice([-1.0, 1.0], parameter.shape)
        parameter.data = asarray(values)
    return model


def loss_of(model):
    """Return the loss as a function of tensors that take the parameters' places."""
    put = putting(model)

    def loss(*tensors):
        put(tensors)
        return mt.ops.cross_entropy(model(SOURCE, TARGET), LABELS, label_smoothing=0.1, ignore_index=0)

    return loss


def arrays_of(model):
    names, parameters = zip(*model.named_parameters(), strict=True)
    return names, [parameter.numpy().copy() for parameter in parameters]


# Positions


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_order_of_the_source_is_seen_by_its_positions_alone(positions):
    """Without positions, attention and feed-forward networks treat the source as a set (section 3.5)."""
    source, order = np.array([[3, 1, 6, 2]]), [2, 0, 3, 1]
    model = model_of(positions=positions)
    encoded, shuffled = (model.encode(ids).numpy() for ids in (source, source[:, order]))
    assert abs(encoded[:, order] - shuffled).max() > 1e-3
    model.source_embedding.positions = asarray(np.zeros((6, 6)))
    encoded, shuffled = (model.encode(ids).numpy() for ids in (source, source[:, order]))
    np.testing.assert_allclose(encoded[:, order], shuffled, rtol=1e-12, atol=1e-13)
    logits = [model(ids, TARGET[:1]).numpy() for ids in (source, source[:, order])]
    np.testing.assert_allclose(*logits, rtol=1e-12, atol=1e-13)


# Gradients


@pytest.mark.numpy_only("counts the entries that are moved: fake CuPy moves fewer")
def test_many_entries_of_every_gradient():
    """A model that shares nothing: every entry of small parameters, and all of large ones in directions."""
    model = model_of(norm="post", positions="learned", share_embeddings=False, attention_bias=True)
    names, arrays = arrays_of(model)
    report = gradcheck(loss_of(model), arrays, names=names, max_entries=14, n_directions=2)
    assert [r.comparisons for r in report.inputs] == [a.size if a.size <= 14 else 16 for a in arrays]
    assert not any(r.kinks for r in report.inputs)


@pytest.mark.parametrize(
    ("norm", "positions", "share", "bias"),
    list(product(["post", "pre"], ["sinusoidal", "learned"], [True, "target", False], [False, True])),
)
def test_gradients_of_every_variant(norm, positions, share, bias):
    """All parameters as one vector, moved in random directions."""
    vocab = {"source_vocab": 9, "target_vocab": 9} if share is True else {}
    model = model_of(norm=norm, positions=positions, share_embeddings=share, attention_bias=bias, n_layers=2, **vocab)
    _, arrays = arrays_of(model)
    loss = loss_of(model)
    ends = np.cumsum([array.size for array in arrays])

    def of_vector(vector):
        return loss(*[vector[e - a.size : e].reshape(a.shape) for a, e in zip(arrays, ends, strict=True)])

    gradcheck(of_vector, [np.concatenate([array.ravel() for array in arrays])], max_entries=4, n_directions=3)


@pytest.mark.numpy_only("fake CuPy moves all parameters at once, in the test above")
@cases_from_toml
def test_gradients_of_every_parameter(options):
    """Each parameter alone: a direction moves all its entries, so one wrong entry is enough to be seen."""
    model = model_of(**options)
    names, arrays = arrays_of(model)
    gradcheck(loss_of(model), arrays, names=names, max_entries=1, n_directions=1)


def test_dropout_has_the_gradient_of_its_draw():
    model = model_of(dropout=0.3)
    _, arrays = arrays_of(model)
    loss = loss_of(model)

    def with_one_draw(*tensors):
        model.rng = np.random.default_rng(5)
        return loss(*tensors)

    gradcheck(with_one_draw, arrays, max_entries=1, n_directions=1)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_is_where_the_paper_has_it(norm, monkeypatch):
    """Section 5.4: on the sums of embeddings and positions, and on each sub-layer's output before it is added."""
    drops, dropout = [], mt.ops.dropout

    def recorded(x, p, rng, residual=None):
        drops.append((p, residual is not None))
        return dropout(x, p, rng, residual)

    monkeypatch.setattr(mt.ops, "dropout", recorded)
    model = model_of(dropout=0.3, n_layers=2, norm=norm)
    rng = np.random.default_rng(0)
    memory = model.encode(SOURCE, rng)
    assert drops == [(0.3, False)] + [(0.3, True)] * 2 * 2
    drops.clear()
    model.decode(TARGET, memory, rng=rng)
    assert drops == [(0.3, False)] + [(0.3, True)] * 2 * 3
    drops.clear()
    model(SOURCE, TARGET)  # in training mode, with the model's own generator
    assert len(drops) == 2 * (1 + 2) + 2 * 2 * 1 + 2
    drops.clear()
    assert model.training
    model.decode(TARGET, model.encode(SOURCE))  # without a generator, whatever the mode
    model.step([[1]] * 3, model.new_cache(SOURCE))
    model.attention_maps(SOURCE, TARGET)
    for _ in range(2):  # the mode is set, not changed
        model.eval()(SOURCE, TARGET)
    assert drops == []
    model(SOURCE, TARGET, rng)
    assert len(drops) == 12


def test_a_shared_embedding_receives_the_gradients_of_all_its_uses():
    model = model_of(9, 9)
    apart = model_of(9, 9, share_embeddings=False)
    state = model.state_dict()
    table = state["source_embedding.table"]
    apart.load_state_dict(state | {"target_embedding.table": table, "output": table})
    for m in (model, apart):
        mt.ops.cross_entropy(m(SOURCE, TARGET), LABELS, ignore_index=0).backward()
    parts = [apart.source_embedding.table.grad, apart.target_embedding.table.grad, apart.output.grad]
    assert all(np.abs(part).max() > 1e-3 for part in parts)
    np.testing.assert_allclose(model.output.grad, sum(parts), rtol=0, atol=1e-14)


# The auto-regressive property (section 3.1)

VARIANTS = [
    {},
    {"norm": "pre", "positions": "learned", "share_embeddings": False, "attention_bias": True, "n_layers": 3},
    {"attention_block": 3, "n_layers": 2},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_no_gradient_flows_from_a_position_to_later_tokens(options):
    model = model_of(**options)
    target = TARGET[[0, 0, 2]]
    rng = np.random.default_rng(0)
    embedded = mt.Tensor(rng.standard_normal((3, 4, 6)), requires_grad=True)
    model.target_embedding = lambda *_: embedded
    logits = model(SOURCE, target)
    for i in range(4):
        embedded.grad = None
        logits[:, i].backward(rng.standard_normal((3, TARGET_VOCAB)))
        assert not embedded.grad[:, i + 1 :].any()
        earlier = np.abs(embedded.grad[:, : i + 1]).max(axis=-1)
        assert (earlier > 0)[target[:, : i + 1] != 0].all()


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_later_tokens_do_not_change_earlier_logits_at_all(options, dtype):
    model = model_of(**options)
    if dtype == "float32":
        for parameter in model.parameters():
            parameter.data = parameter.data.astype("float32")
    before = model(SOURCE, TARGET).numpy()
    assert before.dtype == dtype
    for i in range(1, 4):
        for token in range(TARGET_VOCAB):  # padding too
            changed = TARGET.copy()
            changed[:, i] = token
            after = model(SOURCE, changed).numpy()
            assert np.array_equal(after[:, :i], before[:, :i])
            assert (after[:, i] != before[:, i]).any(axis=-1)[TARGET[:, i] != token].all()


@pytest.mark.numpy_only("tracemalloc sees the memory of the host")
def test_a_long_sentence_in_blocks_needs_no_square_of_its_length():
    """Neither the attentions nor the masks that the model makes for them."""

    def peak(length, block):
        model = mt.nn.Transformer(7, 7, **SIZES | {"d_model": 4, "d_k": 2}, attention_block=block)
        ids = np.random.default_rng(0).integers(1, 7, (1, length))
        tracemalloc.start()
        try:
            model(ids, ids).sum().backward(release=True)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert 1.5 < peak(2048, 16) / peak(1024, 16) < 2.6
    assert 3.5 < peak(2048, None) / peak(1024, None) < 4.5


# Padding


def assert_close(a, b):
    """Both are the same up to the order of sums in matrix products of other shapes."""
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-13)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_more_padding_changes_nothing(options):
    model = model_of(**{"max_length": 9} | options)

    def run(more_source, more_target):
        source, target, labels = (
            np.pad(ids, ((0, 0), (0, more)))
            for ids, more in ((SOURCE, more_source), (TARGET, more_target), (LABELS, more_target))
        )
        for parameter in model.parameters():
            parameter.grad = None
        logits = model(source, target)
        mt.ops.cross_entropy(logits, labels, 0.1, ignore_index=0).backward()
        gradients = [np.zeros(p.shape) if p.grad is None else to_numpy(p.grad).copy() for p in model.parameters()]
        return logits.numpy()[:, :4][TARGET != 0], gradients

    logits, gradients = run(0, 0)
    assert max(abs(g).max() for g in gradients) > 0.01
    for more in ((3, 0), (0, 2), (4, 3)):
        other_logits, other_gradients = run(*more)
        assert_close(other_logits, logits)
        for one, other in zip(gradients, other_gradients, strict=True):
            assert_close(one, other)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_sentences_do_not_see_each_other(options):
    model = model_of(**options)
    together = model(SOURCE, TARGET).numpy()
    for i in range(3):
        n_source, n_target = (SOURCE[i] != 0).sum(), (TARGET[i] != 0).sum()
        alone = model(SOURCE[i : i + 1, :n_source], TARGET[i : i + 1, :n_target]).numpy()
        assert_close(alone[0], together[i, :n_target])


def test_the_padding_token_has_no_part_in_the_source():
    model = model_of(share_embeddings=False)
    before = model(SOURCE, TARGET).numpy()
    model.source_embedding.table.data[0] = 100.0
    assert np.array_equal(model(SOURCE, TARGET).numpy(), before)
    mt.ops.cross_entropy(model(SOURCE, TARGET), LABELS, ignore_index=0).backward()
    assert not model.source_embedding.table.grad[0].any()
    assert model.source_embedding.table.grad[1:7].any(axis=1).all()  # ids 1 to 6 occur


def test_a_source_of_nothing_but_padding_is_no_nan():
    model = model_of()
    source = np.concatenate([SOURCE[:2], np.zeros((1, 5), dtype=int)])
    logits = model(source, TARGET)
    mt.ops.cross_entropy(logits, LABELS, ignore_index=0).backward()
    assert np.isfinite(logits.numpy()).all()
    assert all(np.isfinite(p.grad).all() for p in model.parameters())


# Decoding with a cache


def in_steps(model, source, target):
    """Return the logits of a target that is decoded one position at a time."""
    cache = model.new_cache(source)
    return np.concatenate([to_numpy(model.step(target[:, t : t + 1], cache)) for t in range(target.shape[1])], axis=1)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("source", [SOURCE, SOURCE[2:]], ids=["padded", "alone"])
def test_decoding_in_steps_is_decoding_at_once(options, source):
    model = model_of(**options, dropout=0.3)  # which is not used
    target = np.array([[1, 5, 4, 4, 3], [1, 2, 2, 0, 0], [1, 3, 5, 2, 0]])[-len(source) :]
    with mt.no_grad():
        expected = model.decode(target, model.encode(source), mt.ops.padding_mask(source)).numpy()
        assert np.array_equal(expected, model.eval()(source, target).numpy())
    model.train()
    state = model.rng.bit_generator.state
    assert_close(in_steps(model, source, target)[target != 0], expected[target != 0])
    assert model.rng.bit_generator.state == state
    cache = model.new_cache(source)
    for t in range(3):
        assert cache.position == t
        assert [len(stored) for stored in cache.target] == [t] * min(t, 1) * len(model.decoder.layers)
        model.step(target[:, t : t + 1], cache)
    assert [len(stored) for stored in cache.source] == [5] * len(model.decoder.layers)


def share_a_layer(model):
    model.decoder.layers.append(model.decoder.layers[0])


def replace_a_part(model):
    class FeedForward(mt.nn.Module):  # by the methods of tensors, and a tensor made of their values
        def __call__(self, x):
            return mt.Tensor((x * 2).tanh().data) + x.var(axis=-1, keepdims=True)

    model.decoder.layers[0].feed_forward = FeedForward()


def replace_a_method(model):
    logits = model.logits
    model.logits = lambda hidden: 3 * (logits(hidden) / 3).tanh()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
@pytest.mark.parametrize("change", [share_a_layer, replace_a_part, replace_a_method, twice])
def test_a_changed_model_is_decoded_in_steps_too(change, positions):
    model, target = model_of(positions=positions, d_k=4).eval(), np.array([[1, 5, 4, 3], [1, 2, 6, 6], [1, 3, 5, 2]])
    change(model)
    assert_close(in_steps(model, SOURCE, target), model(SOURCE, target).numpy())


def test_a_copy_of_a_cache_goes_on_from_the_same_step():
    model = model_of()
    cache = model.new_cache(SOURCE)
    model.step(TARGET[:, :1], cache)
    other = deepcopy(cache)
    expected = to_numpy(model.step(TARGET[:, 1:2], cache))
    np.testing.assert_array_equal(to_numpy(model.step(TARGET[:, 1:2], other)), expected)


@pytest.mark.parametrize("share", [True, "inputs", False])
def test_a_model_arranged_for_decoding_is_the_same_model(share):
    model = mt.nn.Transformer(150, 150, **SIZES | {"dtype": "float64", "share_embeddings": share})
    source, target = np.array([[3, 4, 2], [5, 2, 0]]), np.array([[1, 149, 7], [1, 8, 0]])
    state, logits = model.state_dict(), to_numpy(model.eval()(source, target).data)
    assert model.arrange_for_decoding() is model
    if backend() == "numpy":
        assert model.output.data.T.flags.c_contiguous
    np.testing.assert_allclose(to_numpy(model(source, target).data), logits, rtol=0, atol=1e-12)
    for name, values in model.state_dict().items():
        assert values.flags.c_contiguous, name
        np.testing.assert_array_equal(values, state[name], err_msg=name)


def test_a_model_arranged_for_decoding_trains_alike():
    source, target = SOURCE, TARGET
    models = [model_of().eval() for _ in range(2)]
    models[1].arrange_for_decoding()
    for model in models:
        adam = mt.optim.Adam(model.parameters())
        mt.ops.cross_entropy(model(source, target), target, ignore_index=0).backward()
        adam.step(1e-3)
    first, second = (model.state_dict() for model in models)
    for name, values in first.items():
        np.testing.assert_allclose(second[name], values, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    ("tokens", "parents"), [([[1, 2]], None), ([[1], [1]], None), ([[1], [1]], [[0], [0]]), ([[1, 2]], [[0]])]
)
def test_steps_of_other_sentences_are_refused(tokens, parents):
    model = model_of()
    cache = model.new_cache(SOURCE[:1])
    shapes = np.shape(tokens), (len(tokens), 1) if parents is None else np.shape(parents)
    with pytest.raises(ValueError, match=re.escape(f"{shapes[0]} and parents of shape {shapes[1]}")):
        model.step(tokens, cache, parents)
    assert cache.position == len(cache.target) == 0
    model.step([[1]], cache)


def test_maps_let_no_gradient_through_and_say_so():
    model = model_of()
    with pytest.raises(RuntimeError, match="no_grad"):
        model.encode(SOURCE, maps=[])
    with pytest.raises(RuntimeError, match="no_grad"):
        model.decode(TARGET, model.encode(SOURCE), cross_maps=[])


# Attention maps


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_attention_maps(options):
    model = model_of(**options)
    layers = options.get("n_layers", 1)
    maps = model.attention_maps(SOURCE, TARGET)
    shapes = {"cross": (3, 2, 4, 5), "encoder": (3, 2, 5, 5), "decoder": (3, 2, 4, 4)}
    source_real, target_real = SOURCE != 0, TARGET != 0
    visible = {
        "cross": np.broadcast_to(source_real[:, None, None, :], shapes["cross"]),
        "encoder": np.broadcast_to(source_real[:, None, None, :], shapes["encoder"]),
        "decoder": np.broadcast_to(np.tri(4, dtype=bool) & target_real[:, None, None, :], shapes["decoder"]),
    }
    assert maps.keys() == shapes.keys()
    for kind, shape in shapes.items():
        assert len(maps[kind]) == layers
        for weights in maps[kind]:
            assert isinstance(weights, np.ndarray)
            assert weights.shape == shape
            np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=8 * np.finfo(float).eps)
            assert not weights[~visible[kind]].any()
            assert (weights[visible[kind]] > 0).all()


def test_attention_maps_are_made_without_dropout():
    model = model_of(dropout=0.5)
    state = model.rng.bit_generator.state
    maps = model.attention_maps(SOURCE, TARGET)
    assert model.training
    assert model.rng.bit_generator.state == state
    again = model.eval().attention_maps(SOURCE, TARGET)
    assert not model.training
    for kind in maps:
        assert all(np.array_equal(a, b) for a, b in zip(maps[kind], again[kind], strict=True))


def test_attention_maps_are_those_of_the_forward_pass():
    model = model_of()
    maps = []
    with mt.no_grad():
        recorded = model.encode(SOURCE, maps=maps).numpy()
    np.testing.assert_allclose(recorded, model.encode(SOURCE).numpy(), rtol=0, atol=1e-14)
    assert np.array_equal(to_numpy(maps[0]), model.attention_maps(SOURCE, TARGET)["encoder"][0])


# Seeds, dropout, training and evaluation


def small(**options):
    return mt.nn.Transformer(7, 7, **SIZES | options)


def test_float32_and_float64_start_alike():
    for a, b in zip(small().parameters(), small(dtype="float64").parameters(), strict=True):
        assert (a.dtype, b.dtype) == (np.float32, np.float64)
        assert np.array_equal(a.data, b.data.astype("float32"))


def test_dropout_follows_from_the_seed():
    one, other = small(dropout=0.4, seed=5), small(dropout=0.4, seed=5)
    first, second = one(SOURCE, TARGET).numpy(), one(SOURCE, TARGET).numpy()
    assert not np.array_equal(first, second)
    assert np.array_equal(other(SOURCE, TARGET).numpy(), first)
    assert np.array_equal(other(SOURCE, TARGET).numpy(), second)
    other.rng = np.random.default_rng(1)
    assert not np.array_equal(other(SOURCE, TARGET).numpy(), one(SOURCE, TARGET).numpy())


def test_train_and_eval():
    model = small(dropout=0.4)
    assert model.training
    assert model.eval() is model
    assert not model.training
    evaluated = model(SOURCE, TARGET).numpy()
    assert np.array_equal(model(SOURCE, TARGET).numpy(), evaluated)
    assert model.train() is model
    assert model.training
    assert not np.array_equal(model(SOURCE, TARGET).numpy(), evaluated)
    assert np.array_equal(small(dropout=0.0)(SOURCE, TARGET).numpy(), evaluated)


@pytest.mark.parametrize("training", [True, False])
def test_a_generator_that_is_given_decides_alone(training):
    model = small(dropout=0.4).train(training)
    state = model.rng.bit_generator.state
    first, again, other = (model(SOURCE, TARGET, np.random.default_rng(seed)).numpy() for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert model.rng.bit_generator.state == state


def test_float32_in_float32_out():
    model = small(dropout=0.2, norm="pre", attention_bias=True, positions="learned")
    logits = model(SOURCE, TARGET)
    assert logits.dtype == np.float32
    mt.ops.cross_entropy(logits, LABELS, 0.1, 0).backward()
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype("float32")}


# Parameters and their state


def test_state_dict_makes_the_round_trip():
    one, other = small(seed=1, dropout=0.0), small(seed=2, dropout=0.0)
    state = one.state_dict()
    other.load_state_dict(state)
    assert np.array_equal(one(SOURCE, TARGET).numpy(), other(SOURCE, TARGET).numpy())
    for name, array in state.items():
        assert isinstance(array, np.ndarray)
        assert array.flags.owndata
        array += 1  # a copy: nobody sees it
        assert not np.array_equal(dict(one.named_parameters())[name].numpy(), array)
        assert not np.array_equal(dict(other.named_parameters())[name].numpy(), array)


@pytest.mark.parametrize("options", [{}, {"positions": "learned", "attention_bias": True, "share_embeddings": False}])
def test_a_model_without_initial_weights_takes_those_of_a_state(options):
    one = small(seed=1, **options)
    state = one.state_dict()
    tracemalloc.start()
    big = mt.nn.Transformer(50_000, 50_000, d_model=32, n_heads=2, n_layers=1, d_ff=2000, init_weights=False)
    other = small(seed=1, init_weights=False, **options)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if backend() == "numpy":
        assert most < sum(parameter.size for parameter in big.parameters())  # a fourth of its bytes
    other.load_state_dict(state, copy=False)
    for name, parameter in other.named_parameters():
        np.testing.assert_array_equal(to_numpy(parameter.data), state[name], err_msg=name)
        if backend() == "numpy":
            assert np.shares_memory(parameter.data, state[name]), name
    assert np.array_equal(one(SOURCE, TARGET).numpy(), other(SOURCE, TARGET).numpy())
    assert not np.array_equal(small(seed=1, **options).output.data, xp.zeros_like(one.output.data))


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_load_state_dict_converts_numbers_of_another_type(dtype, copy):
    one, other = small(seed=1, dtype="float64").state_dict(), small(seed=2)
    other.load_state_dict({name: values.astype(dtype) for name, values in one.items()}, copy=copy)
    for name, values in other.state_dict().items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, one[name].astype(dtype).astype("float32"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("decoder.layers.0.residual3.layer_norm.bias"), "missing: .*layer_norm.bias$"),
        (lambda s: s.update(extra=np.zeros(3)), "unknown: extra"),
        (lambda s: s.update(extra=s.pop("source_embedding.table")), "missing: .*embedding.table.*unknown: extra"),
        # this one would broadcast
        (lambda s: s.update({"decoder.layers.0.feed_forward.b2": np.zeros(1)}), r"b2 .*\(6,\).*\(1,\)"),
        (lambda s: s.update({list(s)[-1]: s[list(s)[-1]].astype(str)}), "holds <U.*expected numbers"),
        (lambda s: s.update({list(s)[-1]: s[list(s)[-1]] + 1j}), "holds complex"),
        (lambda s: s.update({list(s)[-1]: s[list(s)[-1]] > 0}), "holds bool"),
        (lambda s: s.update({k: v.T for k, v in s.items() if k.endswith("w2")}), r"w2 has shape \(7, 6\)"),
    ],
)  # fmt: skip
def test_load_state_dict_refuses_what_does_not_fit_and_changes_nothing(change, message):
    model = small()
    before = model.state_dict()
    state = {name: array + 1 for name, array in before.items()}
    change(state)
    with pytest.raises(ValueError, match=f"load_state_dict: .*{message}"):
        model.load_state_dict(state)
    for name, array in model.state_dict().items():
        assert np.array_equal(array, before[name])


@pytest.mark.parametrize(
    ("share", "vocabularies", "tables"),
    [(True, (11, 11), 1), (True, (11, 13), 2), ("target", (11, 11), 2), ("target", (11, 13), 2),
     (False, (11, 11), 3), (False, (11, 13), 3), ("all", (11, 11), 1), ("inputs", (11, 11), 2)],
)  # fmt: skip
def test_shared_embeddings_are_one_parameter(share, vocabularies, tables):
    model = mt.nn.Transformer(*vocabularies, **SIZES, share_embeddings=share)
    names = [name for name, _ in model.named_parameters()]
    parameters = model.parameters()
    assert len(set(names)) == len(names)
    assert len({id(p) for p in parameters}) == len(parameters) == len(names) == len(model.state_dict())
    assert sum(p.shape in ((11, 6), (13, 6)) for p in parameters) == tables
    assert (model.output is model.target_embedding.table) == (share in (True, "all", "target"))
    assert (model.output is model.source_embedding.table) == (tables == 1)
    assert (model.target_embedding.table is model.source_embedding.table) == (tables == 1 or share == "inputs")
    assert model.output.shape == (vocabularies[1], 6)


def test_names_are_the_way_to_the_parameter():
    model = model_of(n_layers=2, attention_bias=True, norm="pre", positions="learned", share_embeddings=False)
    names = dict(model.named_parameters())
    assert names["encoder.layers.1.feed_forward.w1"] is model.encoder.layers[1].feed_forward.w1
    assert names["decoder.layers.0.cross_attention.b_in"] is model.decoder.layers[0].cross_attention.b_in
    assert names["decoder.final_norm.gain"] is model.decoder.final_norm.gain
    assert names["source_embedding.positions"] is model.source_embedding.positions
    assert names["output"] is model.output
    assert {id(p) for p in names.values()} == places(model).keys()


# The paper's base model


def expected_count(vocab, d_model, n_heads, n_layers, d_ff, d_k, d_v):
    """Count the parameters of the paper's model: one embedding, no biases in the attentions."""
    attention = d_model * n_heads * (d_k + d_k + d_v) + n_heads * d_v * d_model
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return vocab * d_model + n_layers * (encoder_layer + decoder_layer)


def test_the_defaults_are_the_base_model():
    small_vocab = 37
    model = mt.nn.Transformer(small_vocab, small_vocab)
    n = sum(p.size for p in model.parameters()) + (37_000 - small_vocab) * model.output.shape[1]
    assert n == expected_count(37_000, d_model=512, n_heads=8, n_layers=6, d_ff=2048, d_k=64, d_v=64)
    assert round(n / 1e6) == 63  # "65" in Table 3
    defaults = {k: p.default for k, p in inspect.signature(mt.nn.Transformer).parameters.items()}
    assert defaults.keys() >= {"source_vocab", "target_vocab", "options", "seed", *SIZES, "dtype", "recompute"}
    assert "changes" not in defaults
    assert (defaults["dropout"], defaults["norm"], defaults["positions"]) == (0.1, "post", "sinusoidal")
    assert defaults["share_embeddings"] is True
    assert model.output is model.source_embedding.table
    assert {p.dtype for p in model.parameters()} == {np.dtype("float32")}


@pytest.mark.parametrize(("d_k", "d_v"), [(None, None), (3, None), (None, 5), (1, 7), (5, 2)])
def test_sizes_of_keys_and_values_are_free(d_k, d_v):
    model = mt.nn.Transformer(9, 9, d_model=6, n_heads=2, n_layers=2, d_ff=7, d_k=d_k, d_v=d_v, dropout=0.0)
    n = sum(p.size for p in model.parameters())
    assert n == expected_count(9, 6, 2, 2, 7, 3 if d_k is None else d_k, 3 if d_v is None else d_v)
    assert model(SOURCE, TARGET).shape == (3, 4, 9)
    assert model.attention_maps(SOURCE, TARGET)["cross"][1].shape == (3, 2, 4, 5)


def test_sqrt_d_model_times_the_table_plus_the_waves():
    model = model_of()
    expected = 6**0.5 * model.source_embedding.table.numpy()[SOURCE] + to_numpy(mt.ops.sinusoidal_positions(5, 6))
    assert np.array_equal(model.source_embedding(SOURCE).numpy(), expected)
    learned = model_of(positions="learned")
    expected = 6**0.5 * learned.target_embedding.table.numpy()[TARGET] + learned.target_embedding.positions.numpy()[2:6]
    for i in range(4):
        found = learned.target_embedding(TARGET[:, i : i + 1], position=2 + i).numpy()
        assert np.array_equal(found, expected[:, i : i + 1])


# What is refused


def test_options_are_handed_down_whole():
    options = mt.nn.ModelOptions(**SIZES)
    model = mt.nn.Transformer(7, 8, options, norm="pre")
    assert model.options == options.changed(norm="pre")
    assert model.encoder.layers[0].self_attention.options is model.options
    assert model.decoder.layers[0].residual3.options is model.options
    same = mt.nn.Transformer(7, 8, **SIZES, norm="pre")
    for one, other in zip(model.parameters(), same.parameters(), strict=True):
        assert np.array_equal(one.data, other.data)


def test_the_decoder_may_have_another_number_of_layers():
    model = mt.nn.Transformer(7, 8, **SIZES | {"n_layers": 3, "n_decoder_layers": 1, "d_v": 3})
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (3, 1)
    assert {kind: len(maps) for kind, maps in model.attention_maps(SOURCE, TARGET).items()} == {
        "encoder": 3, "decoder": 1, "cross": 1,
    }  # fmt: skip


def test_a_sentence_longer_than_the_learned_positions_is_refused():
    model = small(positions="learned", max_length=4)
    with pytest.raises(ValueError, match=r"5 tokens .* 4 learned positions.*max_length"):
        model(SOURCE, TARGET)
    assert model(SOURCE[:, :4], TARGET).shape == (3, 4, 7)
    cache = model.new_cache(SOURCE[:, :3])
    for t in range(4):
        model.step(TARGET[:, t : t + 1], cache)
    with pytest.raises(ValueError, match="5 tokens"):
        model.step(TARGET[:, :1], cache)
