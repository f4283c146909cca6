"""What a trace says about a model: keys, order, and gradients that equal those of an ordinary backward pass."""

import gc
import linecache
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from fake_cupy.library import cupy
from small_models import CROSS, SOURCE, TARGET, gradients, model
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.arrays import to_numpy, use, uses_kernels, using, xp
from minitransformer.autograd.graph import Node, _recording
from minitransformer.tracing import (
    HeadOff,
    LogProbabilityDifference,
    Loss,
    difference,
    in_double,
    recording,
)
from minitransformer.tracing.watching import watching

KINDS = toml_table(__file__, "KINDS")


@pytest.fixture(scope="module")
def models():
    return {kind: model(**options) for kind, options in KINDS.items()}


@pytest.fixture(scope="module")
def traces(models):
    return {kind: mt.trace(one, SOURCE, TARGET) for kind, one in models.items()}


@pytest.fixture(scope="module")
def post(models):
    return models["post"]


@pytest.fixture(scope="module")
def traced(traces):
    return traces["post"]


# Where and what


def test_a_second_step_of_the_same_name_has_a_number(post):
    objective = LogProbabilityDifference(1, 5, 6)
    keys = [step.key for step in mt.trace(post, SOURCE, TARGET, objective).steps]
    assert keys[-5:] == ["/log_softmax", "/index", "/index.2", "/index.3", "/subtract"]


def test_a_gradient_with_several_names_is_held_once(traced):
    feed_forward = "decoder.layers.0.feed_forward"
    inside = traced[f"{feed_forward}/feed_forward:feed_forward.d_w1"]
    visit = next(visit for visit in traced.walk if visit.key == f"{feed_forward}.w1")
    assert traced[f"d:{feed_forward}.w1"] is inside
    assert visit.parts[0].gradient is inside
    table = traced["d:source_embedding.table"]  # a sum of three parts
    assert not any(np.shares_memory(table, other) for key, other in traced.arrays.items() if other is not table)


@pytest.mark.numpy_only("tracemalloc sees the memory of the host")
def test_a_trace_holds_no_gradient_twice():
    shown, most = [], []
    for vocabulary, options in ((50, {"d_model": 128, "d_ff": 512}), (20_000, {"d_model": 16, "d_ff": 64})):
        one = mt.nn.LanguageModel(vocabulary, **options, n_heads=2, n_layers=4, dtype="float64")
        mt.trace(one, [[1, 5, 6, 7]])
        tracemalloc.start()
        shown.append(mt.trace(one, [[1, 5, 6, 7]]))
        most.append(tracemalloc.get_traced_memory()[1] / sum(parameter.data.nbytes for parameter in one.parameters()))
        tracemalloc.stop()
    assert most[0] < 1.6  # gradients of layers
    assert most[1] < 7  # those of a table: of logits, of rows, their sum, and values of the last layer
    assert np.shares_memory(shown[1]["/transpose:transpose.d_x"], shown[1]["d:/transpose"])


@pytest.mark.numpy_only("reads the memory of the host")
def test_zeros_that_are_left_out_of_a_copy_are_zeros(monkeypatch, post, traced):
    monkeypatch.setattr(recording, "LARGE", 0)
    again = mt.trace(post, SOURCE, TARGET)
    assert again.arrays.keys() == traced.arrays.keys()
    for key, array in again.arrays.items():
        assert array.tobytes() == traced[key].tobytes(), key


def test_no_array_waits_for_the_garbage_collector(post):
    doubled = in_double(post)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        mt.trace(post, SOURCE, TARGET)
        mt.trace(post, SOURCE, TARGET, edits=[HeadOff(CROSS, 1)])
        difference(doubled, SOURCE, TARGET, None, (), CROSS, (0, 0, 1), [1e-4])
        difference(doubled, SOURCE, TARGET, None, (), "source_embedding.table", (5, 1), [1e-4])
        gc.collect()
        found = [one for one in gc.garbage if any(isinstance(x, xp.ndarray) for x in gc.get_referents(one))]
        assert not [type(one).__name__ for one in found]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_the_model_line_is_the_call_of_the_operation(traced):
    file, number = traced.step(CROSS).model_line
    assert "attention(*inputs" in linecache.getline(file, number)
    file, number = traced.step("/linear").model_line
    assert "ops.linear(" in linecache.getline(file, number)
    assert traced.step("/cross_entropy").model_line is None


def test_parameters_are_not_copied(traced, post):
    for name, parameter in post.named_parameters():
        if xp.ndarray is np.ndarray:
            assert traced[name] is parameter.data
        np.testing.assert_array_equal(traced.parameters[name].value, to_numpy(parameter.data))


# Gradients


@pytest.mark.parametrize("kind", [*KINDS, "float32"])
def test_gradients_of_parameters_are_those_of_backward_to_the_bit(kind, models, traces):
    parts = models[kind] if kind in models else model(dtype=kind, **KINDS["pre"])
    found = traces[kind] if kind in traces else mt.trace(parts, SOURCE, TARGET)
    expected = gradients(parts)
    assert found.parameters.keys() == expected.keys()
    for name, gradient in expected.items():
        assert found.parameters[name].gradient.dtype == parts.options.dtype
        np.testing.assert_array_equal(found.parameters[name].gradient, gradient)
        np.testing.assert_array_equal(found[f"d:{name}"], gradient)


@pytest.mark.parametrize("options", [{"attention_block": 2}, {"recompute": True}])
def test_options_that_save_memory_change_nothing(options, traced):
    parts = model(**options)
    found = mt.trace(parts, SOURCE, TARGET)
    assert found.arrays.keys() == traced.arrays.keys()
    assert found[f"{CROSS}:scaled_dot_product_attention.weights"].shape == (2, 2, 5, 5)
    for name, gradient in gradients(parts).items():
        np.testing.assert_allclose(found[f"d:{name}"], gradient, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_the_walk_has_the_order_of_the_engine(kind, models, traces, monkeypatch):
    order, plain = [], Node.gradients

    def gradients_of(node, d_output):
        order.append((node.name, d_output.shape))
        return plain(node, d_output)

    monkeypatch.setattr(Node, "gradients", gradients_of)
    gradients(models[kind])
    found = traces[kind]
    names = {step.key: step.name for step in found.steps}
    assert [(names[v.key], found[v.key].shape) for v in found.walk if v.key in names] == order


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_of_a_visit_add_up_to_the_gradient(kind, traces):
    found = traces[kind]
    assert found.walk[0].key == "/cross_entropy"
    assert found.walk[0].parts == []
    done = set()
    for visit in found.walk:
        assert {part.key for part in visit.parts} <= done
        done.add(visit.key)
        if visit.parts:
            np.testing.assert_array_equal(sum(part.gradient for part in visit.parts), found[f"d:{visit.key}"])
    assert found.parameters.keys() <= done


# Nothing is left behind


def test_the_model_is_left_alone():
    parts = model(dropout=0.5).train()
    values, state = parts.state_dict(), parts.rng.bit_generator.state
    found = mt.trace(parts, SOURCE, TARGET)
    assert not any("dropout" in key for key in found.arrays)
    assert parts.training
    assert parts.rng.bit_generator.state == state
    assert all(parameter.grad is None for parameter in parts.parameters())
    for name, value in parts.state_dict().items():
        np.testing.assert_array_equal(value, values[name])


class Failing(Loss):
    def __call__(self, logits, targets):
        raise ZeroDivisionError("on purpose")


def test_the_tracer_that_was_there_before_is_restored(post):
    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    try:
        sys.settrace(tracer)
        mt.trace(post, SOURCE, TARGET)
        after = sys.gettrace()
        with pytest.raises(ZeroDivisionError):
            mt.trace(post, SOURCE, TARGET, Failing())
        after_error = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer
    assert after_error is tracer
    assert _recording.watch is None


def test_frozen_parameters_have_no_gradient():
    parts = model()
    parts.encoder.layers[0].feed_forward.w1.requires_grad = False
    found = mt.trace(parts, SOURCE, TARGET)
    assert found.parameters["encoder.layers.0.feed_forward.w1"].gradient is None
    assert "d:encoder.layers.0.feed_forward.w1" not in found
    for parameter in parts.parameters():
        parameter.requires_grad = False
    assert mt.trace(parts, SOURCE, TARGET).walk == []


def test_steps_of_other_threads_are_not_seen(post):
    seen = []
    with watching(post, see=lambda call: seen.append(call.key)):
        thread = threading.Thread(target=post, args=(SOURCE, TARGET))
        thread.start()
        thread.join()
        mt.Tensor([1.0]).exp()
    assert seen == ["/exp"]


class Waiting(Loss):
    begun, other_is_watching = threading.Event(), threading.Event()

    def __call__(self, logits, targets):
        self.begun.set()
        assert self.other_is_watching.wait(30)
        return super().__call__(logits, targets)


def test_runs_of_two_threads_that_overlap_leave_each_other_alone(post, traced):
    found, seen = [], []
    thread = threading.Thread(target=lambda: found.append(mt.trace(post, SOURCE, TARGET, Waiting())))
    thread.start()
    assert Waiting.begun.wait(30)
    with watching(post, see=lambda call: seen.append(call.key)):
        Waiting.other_is_watching.set()
        thread.join()  # the block that began first ends first
        post(SOURCE, TARGET[:, :-1])
    assert [step.key for step in found[0].steps] == [*seen, "/cross_entropy"]
    assert found[0].value == traced.value
    assert _recording.watch is None


def test_in_double_converts_a_copy():
    parts = model(dtype="float32")
    double = in_double(parts)
    assert {parameter.dtype for parameter in double.parameters()} == {np.dtype("float64")}
    assert {parameter.dtype for parameter in parts.parameters()} == {np.dtype("float32")}
    assert double.output is double.source_embedding.table
    assert double.options.dtype == double.encoder.layers[0].residual1.options.dtype == "float64"
    np.testing.assert_allclose(mt.trace(double, SOURCE, TARGET).value, mt.trace(parts, SOURCE, TARGET).value, rtol=1e-5)


@pytest.mark.numpy_only("chooses the library itself")
def test_kernels_make_way_for_the_reference_implementations(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with using("numpy"):
        use("cupy", kernels=True)
        found = mt.trace(model(), SOURCE, TARGET)
        assert uses_kernels()
    assert type(found[CROSS]) is np.ndarray
    assert f"{CROSS}:softmax.exponentials" in found
    np.testing.assert_allclose(found.value, mt.trace(model(), SOURCE, TARGET).value, rtol=1e-12)
