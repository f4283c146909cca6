"""Every operation, proved over drawn inputs."""

import copy
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.testing import prove, strategies
from minitransformer.testing.examples import examples

SLOW = {"scaled_dot_product_attention": 15, "multi_head_attention": 12, "local_attention": 15, "additive_attention": 12}


@pytest.mark.parametrize("extreme", [False, True], ids=["moderate", "extreme"])
@pytest.mark.parametrize("name", mt.ops.registry)
def test_every_operation_is_proved(name, extreme, monkeypatch):
    # Few entries of each of many draws, and all entries in directions. More are moved in the examples below,
    # and the reference implementation is compared in every entry.
    monkeypatch.setattr(sys.modules[prove.__module__], "MAX_ENTRIES", 8)
    operation = mt.ops.registry[name]
    most = settings().max_examples
    examples = (min(SLOW.get(name, most), most) if most <= 25 else most) // (3 if extreme else 1)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(strategies.inputs(operation, extreme), st.integers(0, 2**16))
    def proved(example, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            prove(operation, example.inputs, seed=seed, **example.options)

    proved()


@pytest.mark.asks("the right gradient, for all examples of minitransformer/testing/examples.py")
@pytest.mark.parametrize("name", mt.ops.registry)
def test_the_examples_are_proved(name):
    """Each special case once, as in `minitransformer gradcheck`: masks, blocks, dilations, padding."""
    cases = examples(mt.ops.registry[name])
    assert len({example.case for example in cases}) == len(cases) > 0
    for example in cases:
        prove(mt.ops.registry[name], example.inputs, **example.options)


@settings(max_examples=10)
@given(st.data())
def test_attention_of_one_tensor_three_times_adds_its_three_gradients(data):
    x = data.draw(strategies.arrays(data.draw(strategies.sizes(3, min=(0, 0, 1)))))
    mask = data.draw(strategies.masks((*x.shape[:-1], x.shape[-2])))

    def self_attention(x):
        return mt.ops.scaled_dot_product_attention(x, x, x, mask)

    mt.testing.gradcheck(self_attention, (x,))


@settings(max_examples=10)
@given(st.data())
def test_a_layer_used_twice_adds_both_gradients(data):
    n, d = data.draw(strategies.sizes(2, min=(0, 1)))
    x, weight, gain = (data.draw(strategies.arrays(shape)) for shape in ((n, d), (d, d), (d,)))

    def twice(x, weight, gain):
        for _ in range(2):
            x = mt.ops.layer_norm(mt.ops.linear(x, weight), gain, gain, eps=0.1)
        return x

    mt.testing.gradcheck(twice, (x, weight, gain))


ROWS_AND_SHARED = {
    **{name: ([(3,)], []) for name in ("softmax", "log_softmax", "gelu", "gelu_tanh", "silu")},
    "swiglu": ([(6,)], []),
    "rotary": ([(3, 4)], []),
    "layer_norm": ([(5,)], [(5,), (5,)]),
    "rms_norm": ([(5,)], [(5,)]),
    "linear": ([(3,)], [(3, 4), (4,)]),
    "low_rank_linear": ([(3,)], [(3, 4), (3, 2), (2, 4)]),
    "feed_forward": ([(3,)], [(3, 4), (4,), (4, 2), (2,)]),
    "scaled_dot_product_attention": ([(3, 2), (4, 2), (4, 3)], []),
    "local_attention": ([(5, 2), (5, 2), (5, 3)], []),
    "additive_attention": ([(3, 2), (4, 3), (4, 2)], [(2, 5), (3, 5), (5,), (5,)]),
}
"""The last axes of the inputs that each row or sentence has for itself, and the shapes of those that all share."""


@pytest.mark.parametrize("leading", [(2, 3, 2), (17_011,)], ids=["several axes", "more than a cache slice"])
@pytest.mark.parametrize("name", ROWS_AND_SHARED)
def test_many_rows_or_axes_are_what_their_pieces_are(name, leading):
    operation, (own, shared), rng = mt.ops.registry[name], ROWS_AND_SHARED[name], np.random.default_rng(7)
    options = {"radius": 1} if name == "local_attention" else {}
    weights = [asarray(rng.normal(size=shape)) for shape in shared]
    inputs = [rng.normal(size=(*leading, *last)) for last in own]
    y, saved = operation.forward(*map(asarray, inputs), *weights, **options)
    y, d_y = to_numpy(y), rng.normal(size=y.shape)
    found = [to_numpy(d) for d in operation.backward(saved, asarray(d_y))[: len(inputs) + len(weights)]]

    n, axes = int(np.prod(leading)), len(leading)
    flat = [x.reshape(n, *x.shape[axes:]) for x in (*inputs, d_y, y, *found[: len(inputs)])]
    total = [np.zeros(w.shape) for w in weights]
    for rows in np.array_split(np.arange(n), 12):
        *pieces, d_piece, expected = (x[rows] for x in flat[: len(inputs) + 2])
        value, saved = operation.forward(*map(asarray, pieces), *weights, **options)
        gradients = [to_numpy(d) for d in operation.backward(saved, asarray(d_piece))[: len(found)]]
        np.testing.assert_allclose(to_numpy(value), expected, rtol=1e-12, atol=1e-14)
        for d, whole in zip(gradients, flat[len(inputs) + 2 :], strict=False):
            np.testing.assert_allclose(d, whole[rows], rtol=1e-11, atol=1e-13)
        total = [t + d for t, d in zip(total, gradients[len(inputs) :], strict=True)]
    for t, d in zip(total, found[len(inputs) :], strict=True):
        np.testing.assert_allclose(d, t, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("first", [0, 1, 63, 4095])
@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 128, 1025])
def test_tables_of_positions_are_long_enough(length, first):
    """Rotary positions turn pairs of features; ALiBi and the sinusoids, in each layout, have a row for each position.

    The scale "d_model-2" is that of tensor2tensor and OpenNMT-tf: log 10000 is cut into D/2 - 1 equal steps.
    """
    x, positions = np.random.default_rng(3).normal(size=(length, 6)), first + np.arange(length)[:, None]
    angles = positions * 10000.0 ** (-np.arange(0, 6, 2) / 6)
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    found = to_numpy(mt.ops.rotary.forward(asarray(x), first)[0])
    np.testing.assert_allclose(found[:, 0::2] + 1j * found[:, 1::2], turned, rtol=1e-12, atol=1e-12)
    for layout, where in (("interleaved", (slice(0, None, 2), slice(1, None, 2))), ("halves", (slice(3), slice(3, 6)))):
        for scale, divisor in (("d_model", 6), ("d_model-2", 4)):
            table = to_numpy(mt.ops.sinusoidal_positions(length, 6, layout=layout, scale=scale, first=first))
            angles = positions * 10000.0 ** (-np.arange(0, 6, 2) / divisor)
            np.testing.assert_allclose(table[:, where[0]], np.sin(angles), atol=1e-12)
            np.testing.assert_allclose(table[:, where[1]], np.cos(angles), atol=1e-12)
    distances = abs(np.arange(length)[:, None] - np.arange(length))
    slopes = 2.0 ** (-8 * np.arange(1, 4) / 3)
    np.testing.assert_allclose(to_numpy(mt.ops.alibi(3, length)), -slopes[:, None, None] * distances, rtol=1e-12)


def is_float(x):
    return getattr(getattr(x, "dtype", None), "kind", "") == "f"


@pytest.mark.parametrize("name", mt.ops.registry)
def test_a_gradient_is_the_same_to_the_bit_whichever_others_are_needed(name):
    operation = mt.ops.registry[name]

    def gradients(example, needed):
        rng = np.random.default_rng(5)
        inputs = [copy.deepcopy(x) for x in example.inputs]
        tensors = [mt.Tensor(asarray(x), requires_grad=i in needed) if is_float(x) else x for i, x in enumerate(inputs)]
        y = operation(*tensors, **copy.deepcopy(example.options))
        y.backward(asarray(rng.normal(size=y.shape)))
        return {i: None if tensors[i].grad is None else tensors[i].grad.copy() for i in needed}

    for example in examples(operation, seed=4):
        floats = [i for i, x in enumerate(example.inputs) if is_float(x)]
        together = gradients(example, floats)
        for i in floats:
            np.testing.assert_array_equal(gradients(example, [i])[i], together[i])


@cases_from_toml
def test_a_gradient_that_is_not_needed_is_not_computed(name, places):
    operation = mt.ops.registry[name]
    for example in examples(operation):
        inputs = [x if x is None else asarray(x) for x in example.inputs]
        y, saved = operation.forward(*inputs, **example.options)
        of_memory = [1] if "attention" in name and inputs[1] is not None else []
        for place in (*places, *of_memory):
            needs = tuple(i != place for i in range(len(inputs)))
            found = operation.backward(saved, asarray(np.ones(y.shape)), needs=needs)
            assert [i for i in (*places, *of_memory) if found[i] is None] == [place]
