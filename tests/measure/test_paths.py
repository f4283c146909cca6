"""Chains and paths are read from recorded graphs, and are what theory says."""

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.apps.measure import paths
from minitransformer.apps.measure.layers import LAYERS, LayerSizes
from minitransformer.apps.measure.paths import GRAPHS, Arrow, arrows, longest_chain, shortest_paths, stack_layers
from minitransformer.arrays import xp
from minitransformer.autograd import Tensor, concatenate


def test_only_steps_have_length():
    x, other = (Tensor(xp.ones((1, 2)), requires_grad=True) for _ in range(2))
    near = ops.softmax(x)
    far = ops.softmax(ops.softmax(near * 2).reshape(1, 2))
    y = concatenate([far, near + other], axis=0)
    assert longest_chain("softmax", [y]) == 3
    assert shortest_paths("softmax", [x, other], [y, far, near]).tolist() == [[1, 0], [3, np.inf], [1, np.inf]]


@cases_from_toml
def test_chains_and_paths(name, sizes, chain, layers, path):
    sizes = LayerSizes(*sizes)
    operation = GRAPHS[name].operation.name
    assert longest_chain(operation, stack_layers(name, sizes, most=1)[-1]) == chain
    graph = stack_layers(name, sizes)
    assert len(graph) - 1 == layers
    lengths = shortest_paths(operation, graph[0], graph[-1])
    i, j = np.indices(lengths.shape)
    assert np.isfinite(lengths).tolist() == ((j <= i) | (not GRAPHS[name].one_way)).tolist()
    assert lengths[np.isfinite(lengths)].max() == path
    if name == "recurrent":
        assert lengths[8, 0] == 9
        assert lengths[8, 8] == 1


@pytest.mark.parametrize("name", GRAPHS)
def test_position_by_position_is_the_whole_layer(name):
    sizes = LayerSizes(7, 2, 3, 2)
    inputs, outputs = stack_layers(name, sizes, most=1)
    x, eye = concatenate(inputs, axis=1), xp.eye(2)
    expected = {
        "self-attention": lambda: ops.scaled_dot_product_attention(x, x, x),
        "recurrent": lambda: ops.recurrence(x, eye / 2, eye / 2, xp.zeros(2)),
        "convolutional": lambda: ops.convolution(x, xp.stack([eye] * 3) / 3, causal=True),
        "restricted self-attention": lambda: ops.local_attention(x, x, x, radius=2),
    }[name]()
    found = concatenate([y.reshape(1, 1, 2) for y in outputs], axis=1)
    np.testing.assert_allclose(found.data, expected.data, rtol=1e-12, atol=1e-15)


def test_arrows_are_what_a_position_reads():
    assert set(arrows(stack_layers("recurrent", LayerSizes(3, 2, 1, 1)))) == {
        Arrow(0, 0, 1, 0), Arrow(0, 1, 1, 1), Arrow(1, 0, 1, 1), Arrow(0, 2, 1, 2), Arrow(1, 1, 1, 2),
    }  # fmt: skip
    assert set(arrows(stack_layers("self-attention", LayerSizes(3, 2, 1, 1)))) == {
        Arrow(0, i, 1, j) for i in range(3) for j in range(3)
    }
    dilated = {arrow for arrow in arrows(stack_layers("convolutional", LayerSizes(9, 2, 3, 1))) if arrow.layer == 2}
    assert {arrow.from_position for arrow in dilated if arrow.position == 8} == {2, 5, 8}


@pytest.mark.parametrize("name", LAYERS)
def test_chains_and_paths_grow_as_the_table_says(name):
    assert paths._sequential(name)["fit"] == pytest.approx({"n": LAYERS[name].sequential}, abs=0.1)
    assert paths._paths(name)["fit"] == pytest.approx(LAYERS[name].path, abs=0.1)
