"""Weights to and from PyTorch's names and layouts; ``tests/referee`` holds them against PyTorch itself."""

import numpy as np
import pytest
from toml_cases import toml_table

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
