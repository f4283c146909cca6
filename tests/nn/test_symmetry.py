"""Permutations of the positions: what commutes with them, for drawn orders and options, and what must not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy

SIZES = {"d_model": 8, "n_heads": 4, "n_layers": 2, "d_ff": 12, "dropout": 0.0, "dtype": "float64"}


def difference(function, order, seed):
    """Return how much values and gradients differ if the positions change places first instead of last."""
    draw, found = np.random.default_rng(seed), []
    x, d_y = draw.normal(size=(2, 2, len(order), 8))
    for places in (np.arange(len(order)), order):
        inputs = mt.Tensor(asarray(x[:, places]), requires_grad=True)
        y = function(inputs)
        y.backward(asarray(d_y[:, places]))
        found.append((to_numpy(y.data), to_numpy(inputs.grad)))
    return max(abs(a[:, order] - b).max() for a, b in zip(*found, strict=True))


def encoder(**options):
    return mt.nn.Encoder(mt.nn.ModelOptions(**SIZES | options), np.random.default_rng(0))


ORDERS = st.integers(2, 6).flatmap(lambda n: st.permutations(range(n))).map(np.array)
OPTIONS = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["post", "pre", "rms"]),
        "activation": st.sampled_from(["relu", "gelu", "silu", "swiglu"]),
        "n_kv_heads": st.sampled_from([1, 2, 4]),
        "attention_bias": st.booleans(),
        "attention_block": st.sampled_from([None, 2]),
    }
)
W = np.random.default_rng(1).normal(size=(8, 8))
EQUIVARIANT = {
    "attention": lambda x: mt.ops.scaled_dot_product_attention(x, x @ asarray(W), x),
    "additive attention": lambda x: mt.ops.additive_attention(
        x, x, x, asarray(W), asarray(W.T), asarray(np.zeros(8)), asarray(W[0])
    ),
    "linear": lambda x: mt.ops.linear(x, asarray(W)),
    "layer norm": lambda x: mt.ops.layer_norm(x, asarray(W[0]), asarray(W[1])),
    "rms norm": lambda x: mt.ops.rms_norm(x, asarray(W[0])),
    "softmax": mt.ops.softmax,
}
ORDERED = {
    "rotary": mt.ops.rotary,
    "causal": lambda x: mt.ops.scaled_dot_product_attention(x, x, x, mt.ops.causal_mask(x.shape[1])),
    "rotary encoder": lambda x: encoder(positions="rotary")(x),
    "ALiBi encoder": lambda x: encoder(positions="alibi")(x),
}


@given(order=ORDERS, options=OPTIONS, seed=st.integers(0, 99))
def test_an_encoder_without_positions_commutes_with_permutations(order, options, seed):
    assert difference(encoder(**options), order, seed) < 1e-10


@pytest.mark.parametrize("function", EQUIVARIANT.values(), ids=EQUIVARIANT)
@given(order=ORDERS, seed=st.integers(0, 99))
def test_operations_on_rows_and_attention_commute_with_permutations(function, order, seed):
    assert difference(function, order, seed) < 1e-10


@pytest.mark.parametrize("function", ORDERED.values(), ids=ORDERED)
def test_positions_and_masks_do_not(function):
    assert difference(function, np.array([2, 0, 3, 1]), 0) > 1e-3
