"""Traces of models that run functions of ones own: overrides, and operations that are not the package's."""

from contextlib import nullcontext

import numpy as np
import pytest
from small_models import SOURCE, TARGET, model

import minitransformer as mt
from minitransformer.arrays import asarray, xp
from minitransformer.nn import Module, Parameter, Residual
from minitransformer.ops import scaled_dot_product_attention as attention
from minitransformer.ops import softmax
from minitransformer.override import override
from minitransformer.tracing import HeadOff, SetEntry, Unpredictable, first_order, sources


def own_softmax(x, axis=-1, mask=None, out=None):
    y, saved = softmax.written.forward(x, axis, mask)
    return y, saved


def own_residual(block, x, sublayer, rng=None):
    return block.layer_norm(x + sublayer(x))


def test_a_model_with_functions_of_ones_own():
    post = model()
    traced = mt.trace(post, SOURCE, TARGET)
    with override(softmax, forward=own_softmax), override(Residual, __call__=own_residual):
        found = mt.trace(post, SOURCE, TARGET)
    assert [step.key for step in found.steps] == [step.key for step in traced.steps]
    assert found.value == traced.value


def own_forward(x, scale):
    scaled = x * scale
    y = xp.tanh(scaled)
    return y, (x, scale, y)


def own_backward(saved, d_y):
    x, scale, y = saved
    d_scaled = d_y * (1 - y * y)
    d_scale = (d_scaled * x).sum(axis=0)
    return d_scaled * scale, d_scale


class Own(Module):
    """A model with an operation that is in no registry."""

    def __init__(self):
        self.scale = Parameter(asarray(np.array([0.5, -1.0, 2.0])))
        self.operation = mt.Operation(own_forward, own_backward, name="own")

    def __call__(self, source_ids, target_ids):
        return self.operation(mt.Tensor(asarray(np.arange(6.0).reshape(1, 2, 3)).reshape(2, 3)), self.scale).reshape(
            1, 2, 3
        )


def test_an_operation_of_ones_own_may_be_registered(monkeypatch):
    functions = {}
    code = "def forward(x, scale):\n    return x * scale, (x, scale)\n"
    exec(f"{code}def backward(saved, d_y):\n    return saved[1] * d_y, (saved[0] * d_y).sum(axis=0)\n", functions)
    typed = mt.Operation(functions["forward"], functions["backward"], name="typed")
    monkeypatch.setitem(mt.ops.registry, "own", Own().operation)
    monkeypatch.setitem(mt.ops.registry, "typed", typed)
    assert sources()["own.backward"].file == "test_own_functions.py"
    assert "typed.forward" not in sources()
    holder = Own()
    holder.operation = typed
    for one in (Own(), holder):
        found = mt.trace(one, [[1]], [[1, 2, 1]], edits=[SetEntry(f"/{one.operation.name}", (0, 1), 0.5)])
        assert "d:scale" in found


class Loops(Own):
    """A model whose operation has a loop, arrays without values, a name that is bound again, and long lines."""

    def __init__(self):
        super().__init__()

        def forward(x, scale):
            y = xp.empty_like(x)
            for part in (x, scale):
                if part is x:
                    y[...] = part
            z = y * scale
            z = (z
                 + x)  # fmt: skip
            with nullcontext(z + 1) as later:
                pair = [y, z, later]
            pair.append(z * 2)
            return pair[1], (y, scale)

        def backward(saved, d_z):
            y, scale = saved
            d_z = d_z + 0.0
            for d_y in (d_z, d_z * scale):
                d_x = d_z + d_y
            return d_x, (d_z * y).sum(axis=0)

        self.operation = mt.Operation(forward, backward, name="loops")


def test_each_value_is_seen_once_when_its_statement_is_done():
    found = mt.trace(Loops(), [[1]], [[1, 2, 1]])
    names = ("part", "y", "part.2", "z", "z.2", "later", "pair[0]", "pair[1]", "pair[2]", "pair[3]")
    assert [line.key for line in found.step("/loops").forward] == [f"/loops:loops.{name}" for name in names]
    np.testing.assert_array_equal(found["/loops:loops.z.2"], found["/loops"])
    keys = [found.gradient_key(f"/loops:loops.{name}") for name in ("y", "z", "z.2")]
    assert keys == [None, None, "/loops:loops.d_z"]


def test_an_operation_of_ones_own_is_traced_too():
    found = mt.trace(Own(), [[1]], [[1, 2, 1]])
    assert [line.name for line in found.step("/own").forward] == ["scaled", "y"]
    assert [line.name for line in found.step("/own").backward] == ["x", "scale", "y", "d_scaled", "d_scale"]
    np.testing.assert_array_equal(found["/own:own.d_scale"], found["d:scale"])
    assert found.gradient_key("/own:own.scaled") == "/own:own.d_scaled"


def test_an_array_from_outside_is_shown_as_it_was():
    one, rest = Own(), asarray(np.ones((1, 3)))

    def joined(x, scale):
        y = mt.concatenate([scale.reshape(1, 3), mt.Tensor(rest)])
        rest[...] = 2
        return y

    one.operation = joined
    found = mt.trace(one, [[1]], [[1, 2, 1]])
    np.testing.assert_array_equal(found["/concatenate:concatenate.tensors[1]"], np.ones((1, 3)))


def own_weights(q, k):
    return np.full((*q.shape[:-1], k.shape[-2]), 1 / k.shape[-2])


def own_sum(weights, v):
    return weights @ v


def own_attention(q, k, v, mask=None, causal=False, block_size=None, out=None, bias=None):
    weights = own_weights(q, k)
    y = own_sum(weights, v)
    if out is not None:
        out[...] = y
    return (y if out is None else out), (q, k, v, weights)


def own_attention_backward(saved, d_y, out=(None, None, None)):
    gradients = [np.zeros_like(x) for x in saved[:3]]
    for place, gradient in zip(out, gradients, strict=True):
        if place is not None:
            place[...] = gradient
    return gradients


def test_the_source_of_an_override_is_shown(monkeypatch):
    with override(attention, forward=own_attention), override(softmax, forward=own_softmax):
        assert sources()["softmax.forward"].lines[0] == "def own_softmax(x, axis=-1, mask=None, out=None):"
        assert sources()["scaled_dot_product_attention.forward"].lines[0].startswith("def own_attention")
        monkeypatch.setattr(own_attention, "calls", [own_weights, own_sum], raising=False)
        found = sources()["scaled_dot_product_attention.forward"]
    assert found.file == "test_own_functions.py, test_own_functions.py"
    assert [line for line in found.lines if line.startswith("def")] == [
        "def own_weights(q, k):",
        "def own_sum(weights, v):",
    ]
    assert sources()["softmax.forward"].file == "ops/softmax.py"


@pytest.mark.numpy_only("the functions of a learner are in NumPy")
def test_edits_of_values_that_are_not_traced_are_not_predicted():
    step = "encoder.layers.0.self_attention/multi_head_attention"
    with override(attention, forward=own_attention, backward=own_attention_backward):
        found = mt.trace(model(), SOURCE, TARGET)
        with pytest.raises(RuntimeError, match=step):
            mt.trace(model(), SOURCE, TARGET, edits=[HeadOff(step, 0)])
    with pytest.raises(Unpredictable, match=step):
        first_order(found, [HeadOff(step, 0)])
    assert np.isfinite(first_order(found, [SetEntry(step, (0, 0, 0), 0.5)]))
