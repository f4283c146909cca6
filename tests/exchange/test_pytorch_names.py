"""Weights to and from PyTorch's names and layouts; ``tests/referee`` holds them against PyTorch itself."""

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

import minitransformer as mt
from minitransformer.apps.exchange import from_pytorch, to_pytorch

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
    mt.nn.Transformer(8, options.get("target_vocab", 8), **SIZES | kept(options) | positions(options)).load_state_dict(
        back
    )


def positions(options):
    return {"positions": options["positions"]} if "positions" in options else {}


def test_layouts():
    state = state_of(attention_bias=True)
    there = to_pytorch(state, 2)
    layer = "decoder.layers.1."
    for ours, theirs in {
        "cross_attention.w_in": "multihead_attn.in_proj_weight",
        "cross_attention.w_out": "multihead_attn.out_proj.weight",
        "cross_attention.b_in": "multihead_attn.in_proj_bias",
        "feed_forward.w1": "linear1.weight",
        "feed_forward.b2": "linear2.bias",
        "residual3.layer_norm.gain": "norm3.weight",
    }.items():
        np.testing.assert_array_equal(there[f"transformer.{layer}{theirs}"], state[layer + ours].T)
    for name in ("source_embedding", "target_embedding", "generator"):
        np.testing.assert_array_equal(there[f"{name}.weight"], state["source_embedding.table"])


def test_zero_biases_are_written_on_request_only():
    state = state_of()
    plain, full = to_pytorch(state, 2), to_pytorch(state, 2, zero_biases=True)
    added = full.keys() - plain.keys()
    assert added == {name for name in to_pytorch(state_of(attention_bias=True), 2) if name not in plain}
    assert {full[name].shape for name in added} == {(6,), (18,)}
    assert not any(full[name].any() for name in added)
    assert {full[name].dtype for name in added} == {np.dtype("float32")}


@pytest.mark.parametrize("value", [1e-30, np.nan])
@pytest.mark.parametrize("name", ["generator.bias", "transformer.encoder.layers.1.self_attn.in_proj_bias"])
def test_a_bias_that_the_model_has_not_must_be_zero(name, value):
    there = to_pytorch(state_of(), 2, zero_biases=True)
    there[name] = np.zeros(8)
    from_pytorch(there, 2)
    there[name][3] = value
    with pytest.raises(ValueError, match=f"{name} is not zero .*, but the model has no such bias; "):
        from_pytorch(there, 2)


def test_a_name_of_a_shared_embedding_may_be_missing_but_not_differ():
    state = state_of()
    there = to_pytorch(state, 2)
    del there["target_embedding.weight"], there["source_embedding.weight"]
    np.testing.assert_array_equal(from_pytorch(there, 2)["source_embedding.table"], state["source_embedding.table"])
    there["source_embedding.weight"] = there["generator.weight"] + 1
    with pytest.raises(
        ValueError, match=r"source_embedding.weight and generator.weight differ, but share_embeddings=T"
    ):
        from_pytorch(there, 2)
    assert from_pytorch(there, 2, share_embeddings="target").keys() == state.keys() | {"target_embedding.table"}


@pytest.mark.parametrize("sizes", [{"d_k": 2}, {"d_v": 2}, {"d_k": 2, "d_v": 5}], ids=str)
def test_other_sizes_of_heads_are_refused(sizes):
    with pytest.raises(ValueError, match=r"only heads with d_k = d_v = d_model / n_heads = 3, .* without d_k"):
        to_pytorch(state_of(**sizes), 2)


@cases_from_toml
def test_layers_that_pytorch_does_not_have_are_refused(options, words):
    with pytest.raises(ValueError, match=f"to_pytorch: .*{words}"):
        to_pytorch(state_of(**options), 2)


@pytest.mark.parametrize("convert", [to_pytorch, from_pytorch])
def test_wrong_numbers_of_heads_are_refused(convert):
    state = state_of()
    state = state if convert is to_pytorch else to_pytorch(state, 2)
    with pytest.raises(ValueError, match="d_model 6 is not divisible by n_heads 4"):
        convert(state, 4)
    with pytest.raises(ValueError, match="n_heads must be a whole number of at least 1, found 0"):
        convert(state, 0)


@pytest.mark.parametrize("convert", [to_pytorch, from_pytorch])
def test_missing_and_unknown_names_are_refused(convert):
    state = state_of()
    state = state if convert is to_pytorch else to_pytorch(state, 2)
    for name in list(state):
        if name in ("source_embedding.weight", "target_embedding.weight", "generator.weight"):
            continue  # one of the three is enough
        with pytest.raises(ValueError, match=f"{convert.__name__}: .* missing .*'{name}'"):
            convert({other: array for other, array in state.items() if other != name}, 2)
    with pytest.raises(ValueError, match=r"unknown \['encoder.layers.0.extra'\]"):
        convert(state | {"encoder.layers.0.extra": np.zeros(1)}, 2)
    with pytest.raises(ValueError, match=r"missing .*source_embedding"):
        convert({}, 2)


def test_norms_after_the_stacks_belong_to_pre_norm_alone():
    there = to_pytorch(state_of(norm="pre"), 2)
    with pytest.raises(ValueError, match="choose norm='pre'; if not, final_norm=True; here and"):
        from_pytorch(there, 2)
    with pytest.raises(ValueError, match=r"missing .*transformer.decoder.norm.weight"):
        from_pytorch(to_pytorch(state_of(), 2), 2, norm="pre")


@pytest.mark.parametrize(("option", "value"), [("norm", "last"), ("share_embeddings", "both")])
def test_unknown_options_are_refused(option, value):
    with pytest.raises(ValueError, match=f"{option} must be one of .*, found '{value}'"):
        from_pytorch({}, 2, **{option: value})
