"""Weights to and from PyTorch's names and layouts; ``tests/referee`` holds them against PyTorch itself."""

import numpy as np
import pytest
import slow_models
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.interop import from_pytorch, to_pytorch

SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 2, "d_ff": 7, "max_length": 5}
VARIANTS = toml_table(__file__, "VARIANTS")


def state_of(target_vocab=8, **options):
    model = mt.nn.Transformer(8, target_vocab, **SIZES | options)
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=array.shape).astype(array.dtype) for name, array in model.state_dict().items()}


def kept(options):
    return {key: value for key, value in options.items() if key not in ("positions", "target_vocab")}


@pytest.mark.parametrize("zero_biases", [False, True])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_there_and_back_is_exact(options, zero_biases):
    state = state_of(**options)
    there = to_pytorch(state, 2, zero_biases=zero_biases)
    back = from_pytorch(there, 2, **kept(options))
    assert back.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
        assert back[name].flags.c_contiguous
        assert not np.shares_memory(back[name], array)
    arrays = list(there.values())
    assert all(array.flags.c_contiguous for array in arrays)
    assert not any(np.shares_memory(x, y) for i, x in enumerate(arrays) for y in arrays[:i])


@pytest.mark.parametrize("convert", [to_pytorch, from_pytorch])
def test_missing_and_unknown_names_are_refused(convert):
    state = state_of()
    state = state if convert is to_pytorch else to_pytorch(state, 2)
    for name in list(state):
        if name in ("source_embedding.weight", "target_embedding.weight", "generator.weight"):
            continue  # one of the three is enough
        with pytest.raises(ValueError, match=f"{convert.__name__}: .* missing: .*{name}"):
            convert({other: array for other, array in state.items() if other != name}, 2)
    with pytest.raises(ValueError, match=r"unknown: encoder.layers.0.extra"):
        convert(state | {"encoder.layers.0.extra": np.zeros(1)}, 2)
    with pytest.raises(ValueError, match=r"missing: .*source_embedding"):
        convert({}, 2)
    for heads in (0, 4):
        with pytest.raises(ValueError, match=f"{convert.__name__}: .*{heads}"):
            convert(state, heads)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_slow_transformer_with_the_names_of_pytorch_has_the_same_logits(options):
    changes = kept(options) | {"positions": "learned", "n_decoder_layers": 1, "dtype": "float64"}
    model = mt.nn.Transformer(8, options.get("target_vocab", 8), **SIZES | changes)
    rng = np.random.default_rng(2)
    model.load_state_dict({name: rng.normal(0, 0.5, value.shape) for name, value in model.state_dict().items()})
    there = to_pytorch(model.state_dict(), 2, zero_biases=True)
    source, target = [3, 5, 2, 7], [1, 6, 6, 4, 2]
    expected = slow_models.pytorch(there, 2, slow_models.relu, source, target, options.get("norm") == "pre")
    found = model.eval()(np.array([source]), np.array([target])).data[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("options", "word"), [
    ({"activation": "swiglu"}, "swiglu"), ({"norm": "rms"}, "RMSNorm"), ({"n_kv_heads": 1}, "n_kv_heads"),
    ({"d_v": 4}, "d_v"), ({"d_k": 4, "d_v": 1}, r"w_out has shape \(2, 6\)"),
])  # fmt: skip
def test_what_pytorch_does_not_have_is_refused(options, word):
    with pytest.raises(ValueError, match=f"to_pytorch: .*{word}"):
        to_pytorch(state_of(**options), 2)


def test_biases_that_the_model_lacks_are_zero():
    there = to_pytorch(state_of(), 2, zero_biases=True)
    narrow = {name: value.astype("float32") for name, value in state_of().items()}
    assert {value.dtype.name for value in to_pytorch(narrow, 2, zero_biases=True).values()} == {"float32"}
    bias, name = {"generator.bias": np.zeros(8)}, "transformer.encoder.layers.1.self_attn.in_proj_bias"
    assert from_pytorch(there | bias, 2).keys() == state_of().keys()
    for wrong, option in (
        ({"generator.bias": np.full(8, 1e-30)}, "output_bias"),
        ({name: np.full(18, np.nan)}, "attention_bias"),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*{option}=True"):
            from_pytorch(there | wrong, 2)
    with_biases = to_pytorch(state_of(attention_bias=True), 2)
    with pytest.raises(ValueError, match="attention_bias=True"):
        from_pytorch(with_biases, 2)


@pytest.mark.parametrize(("options", "back", "word"), [
    ({"final_norm": True}, {}, "final_norm=True"), ({}, {"final_norm": True}, "missing: .*norm"),
    ({"norm": "pre"}, {}, "norm='pre'"), ({"share_embeddings": False}, {}, "share_embeddings='target' or False"),
    ({"target_vocab": 9}, {"share_embeddings": "all"}, "differ"),
])  # fmt: skip
def test_other_options_than_those_of_the_state_are_named(options, back, word):
    there = to_pytorch(state_of(**options), 2)
    with pytest.raises(ValueError, match=word):
        from_pytorch(there, 2, **back)


def test_one_name_of_a_shared_table_is_enough():
    there = to_pytorch(state_of(), 2)
    tables = ("source_embedding.weight", "target_embedding.weight", "generator.weight")
    for kept_name in tables:
        some = {name: array for name, array in there.items() if name not in tables or name == kept_name}
        assert np.array_equal(from_pytorch(some, 2)["source_embedding.table"], there[kept_name])
    two = {name: array for name, array in there.items() if name != "target_embedding.weight"}
    two["source_embedding.weight"] = two["source_embedding.weight"] + 1
    assert np.array_equal(
        from_pytorch(two, 2, share_embeddings="target")["target_embedding.table"], two["generator.weight"]
    )
    with pytest.raises(ValueError, match=r"source_embedding\.weight and generator.weight differ"):
        from_pytorch(two, 2)
