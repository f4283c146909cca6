"""Every operation, proved over drawn inputs."""

import sys
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitransformer as mt
from minitransformer.testing import prove, strategies
from minitransformer.testing.examples import examples

SLOW = {"scaled_dot_product_attention": 15, "multi_head_attention": 12, "local_attention": 15, "additive_attention": 12}


@pytest.mark.parametrize("extreme", [False, True], ids=["moderate", "extreme"])
@pytest.mark.parametrize("name", mt.ops.registry)
def test_every_operation_is_proved(name, extreme, monkeypatch):
    # Few entries of each of many draws, and all entries in directions. More are moved in the examples below,
    # and the composed form is compared in every entry.
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


@pytest.mark.parametrize("name", mt.ops.registry)
def test_the_examples_are_proved(name):
    """Each special case once and with more entries, whatever is drawn above: masks, blocks, dilations, padding."""
    cases = examples(mt.ops.registry[name], seed=3)
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
