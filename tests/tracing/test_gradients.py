"""Every gradient that a trace shows, held against finite differences, and every change that a line makes, seen."""

import sys

import numpy as np
import pytest
from small_models import SOURCE, TARGET, model, parameter_slope, slope, twice

import minitransformer as mt
from minitransformer.arrays import asarray, xp
from minitransformer.nn import Module, Parameter
from minitransformer.testing.examples import examples
from minitransformer.tracing import Loss
from minitransformer.tracing.lines import arrays_in
from minitransformer.tracing.watching import run

SHOWN = {
    "cross_entropy.losses", "cross_entropy.x", "feed_forward.a", "feed_forward.hidden", "layer_norm.x_hat",
    "multi_head_attention.concat", "multi_head_attention.k", "multi_head_attention.keys_values",
    "multi_head_attention.q", "multi_head_attention.queries", "multi_head_attention.v",
    "scaled_dot_product_attention.scores", "scaled_dot_product_attention.weights", "softmax.x",
}  # fmt: skip
"""The values of the Transformer's operations of which the backward pass computes a gradient."""
GROUPED = {
    "cross_entropy.losses", "cross_entropy.x", "scaled_dot_product_attention.scores",
    "scaled_dot_product_attention.weights", "softmax.x",
    *(f"grouped_query_attention.{name}" for name in (
        "concat", "k", "k_heads", "k_turned", "keys_values", "q", "q_turned", "queries", "v", "v_heads")),
}  # fmt: skip
LATER = {
    "rotary": {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1},
    "alibi": {"norm": "pre", "activation": "gelu", "positions": "alibi", "n_heads": 4, "n_kv_heads": 2},
}


class Holder(Module):
    """A model that is one operation; its floating-point inputs are parameters."""

    def __init__(self, operation, example):
        self.operation, self.options = operation, dict(example.options)
        names = list(operation.signature.parameters)
        self.inputs = [*example.inputs]
        for name, value in zip(names, self.inputs, strict=False):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                setattr(self, name, Parameter(asarray(value)))
        self.names = names

    def __call__(self, source_ids, target_ids):
        options = dict(self.options)
        for name, value in options.items():
            if isinstance(value, np.ndarray):
                options[name] = asarray(value)
        inputs = [getattr(self, name, value) for name, value in zip(self.names, self.inputs, strict=False)]
        inputs = [x * 1.0 if isinstance(x, Parameter) else x for x in inputs]  # an array that may be written into
        inputs = [asarray(x) if isinstance(x, np.ndarray) and x.dtype.kind == "b" else x for x in inputs]
        return self.operation(*inputs, **options)


class Weighted(Loss):
    """A random sum of the outputs."""

    def __call__(self, logits, targets):
        weights = np.random.default_rng(3).normal(size=logits.shape)
        return (logits * asarray(weights)).sum()


def hold(found, traced_model, objective, keys, source=SOURCE, target=TARGET):
    """Compare the gradient of each value with a central difference along a random direction."""
    rng = np.random.default_rng(5)
    for key in keys:
        gradient = found[found.gradient_key(key)]
        assert gradient.shape == found[key].shape, key
        direction = rng.normal(size=gradient.shape)
        expected = float((gradient * direction).sum())
        if ":" in key:
            measured = slope(traced_model, objective, key, direction, source, target)
        else:
            measured = parameter_slope(traced_model, objective, key, direction, source, target)
        assert measured == pytest.approx(expected, rel=1e-6, abs=1e-8), key


def values_with_gradients(found):
    return [line.key for step in found.steps for line in step.forward if found.gradient_key(line.key)]


def test_every_gradient_inside_the_model_is_that_of_the_value_of_its_name():
    parts, objective = model(norm="pre", attention_bias=True), Loss(0.1)
    found = mt.trace(parts, SOURCE, TARGET, objective)
    keys = {key.partition(":")[2]: key for key in values_with_gradients(found)}  # one place for each
    assert keys.keys() == SHOWN
    hold(found, parts, objective, keys.values())


@pytest.mark.parametrize("kind", LATER)
def test_every_gradient_inside_a_later_model_is_that_of_the_value_of_its_name(kind):
    parts, objective = twice(model(attention_bias=True, **LATER[kind])), Loss(0.1)
    found = mt.trace(parts, SOURCE, TARGET, objective)
    keys = {key.partition(":")[2]: key for key in values_with_gradients(found)}
    own = {"rotary": {"rms_norm.x_hat", "swiglu.a", "swiglu.b", "swiglu.u"}, "alibi": {"layer_norm.x_hat"}}
    assert keys.keys() == GROUPED | own[kind]
    hold(found, parts, objective, keys.values())


DRAWN = {name: examples(operation)[0] for name, operation in mt.ops.registry.items() if name != "dropout"}


@pytest.mark.parametrize("name", DRAWN)
def test_the_gradients_of_every_operation_equal_finite_differences(name):
    holder = Holder(mt.ops.registry[name], DRAWN[name])
    found = mt.trace(holder, SOURCE, TARGET, Weighted())
    hold(found, holder, Weighted(), [*found.parameters, *values_with_gradients(found)])


def test_values_that_a_loop_binds_are_numbered_and_have_no_gradient_of_their_own():
    operation = mt.ops.scaled_dot_product_attention
    [example] = [one for one in examples(operation) if one.case == "in blocks of 3, masked"]
    found = mt.trace(Holder(operation, example), SOURCE, TARGET, Weighted())
    key = "/scaled_dot_product_attention:scaled_dot_product_attention.weights"
    assert [found[k].shape for k in (key, f"{key}.2")] == [(2, 3, 3, 6), (2, 3, 1, 6)]
    assert found.gradient_key(f"{key}.2") is None
    *_, d_v = (line for line in found.step("/scaled_dot_product_attention").backward if line.name == "d_v")
    assert int(d_v.key.rpartition(".")[2]) >= 2
    np.testing.assert_array_equal(d_v.array, found["d:v"])


class Returns:
    """Sees which arrays of an operation's passes have changed when the pass returns, whatever the source says."""

    def __init__(self, operation):
        self.codes = {function.__code__ for function in operation.written}
        self.changed = {}

    def __call__(self, frame, event, argument):
        return self.compare() if frame.f_code in self.codes else None

    def compare(self):
        first = {}

        def look(frame, event, argument):
            for name, value in frame.f_locals.items():
                for part, array in arrays_in(name, value).items():
                    old, values = first.setdefault(part, (array, array.tobytes()))
                    if old is not array:
                        first[part] = array, array.tobytes()
                    elif event == "return" and values != array.tobytes():
                        self.changed[part] = array.tobytes()
            return look

        return look


@pytest.mark.numpy_only("compares the memory of arrays on the host")
@pytest.mark.parametrize("name", mt.ops.registry)
def test_every_array_that_a_line_writes_into_is_seen(name, monkeypatch):
    monkeypatch.setattr(xp, "empty", xp.zeros)  # the same values each time
    monkeypatch.setattr(xp, "empty_like", xp.zeros_like)
    operation = mt.ops.registry[name]
    for i, example in enumerate(examples(operation)):
        found = mt.trace(Holder(operation, example), SOURCE, TARGET, Weighted())
        recorded = {array.tobytes() for array in found.arrays.values()}
        again, returns, before = Holder(operation, examples(operation)[i]), Returns(operation), sys.gettrace()
        try:
            sys.settrace(returns)
            Weighted()(again(None, None), None).backward()
        finally:
            sys.settrace(before)
        assert [part for part, values in returns.changed.items() if values not in recorded] == [], example.case


@pytest.mark.numpy_only("fills the memory of arrays on the host")
@pytest.mark.parametrize("name", mt.ops.registry)
def test_no_value_is_seen_before_it_is_written(name, monkeypatch):
    """Here memory that a pass has allocated and not filled is NaN. Only blocks are filled one after the other."""

    def allocate(shape, dtype=np.float64):
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 99, dtype)

    monkeypatch.setattr(xp, "empty", allocate)
    monkeypatch.setattr(xp, "empty_like", lambda x: allocate(x.shape, x.dtype))
    for example in examples(mt.ops.registry[name]):
        if example.options.get("block_size") is not None:
            continue
        found = mt.trace(Holder(mt.ops.registry[name], example), SOURCE, TARGET, Weighted())
        assert [key for key, array in found.arrays.items() if np.isnan(array).any()] == [], example.case


def test_a_value_that_shows_a_parameter_cannot_be_changed():
    class Direct(Module):
        def __init__(self):
            self.first, self.logits = Parameter(asarray(np.ones(1))), Parameter(asarray(np.ones((1, 1, 3))))

        def __call__(self, source_ids, target_ids):
            return self.logits

    def add(array):
        array += 1

    with pytest.raises(ValueError, match=r"cross_entropy\.x shows the parameter logits; change the parameter"):
        run(Direct(), np.array([[1]]), np.array([[1, 2]]), change={"/cross_entropy:cross_entropy.x": add})
