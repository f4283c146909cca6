"""Edits: what they do to values, and that gradients of an edited model are those of the edited model."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import CROSS, FORWARD, OWN, twice

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.autograd.graph import _recording
from minitransformer.ops import scaled_dot_product_attention as attention
from minitransformer.ops import softmax
from minitransformer.tracing import (
    HeadOff,
    LayerOff,
    LogProbabilityDifference,
    Loss,
    SetEntry,
    SetMask,
    SetWeight,
    SublayerOff,
    Temperature,
    first_order,
    trace,
)
from minitransformer.tracing.editing import Editor, layout_of
from minitransformer.tracing.edits import SUBLAYERS, Change, Edit, Layout
from minitransformer.tracing.twin import twin

SOURCE = np.array([[3, 4, 6, 2], [5, 2, 0, 0]])
TARGET = np.array([[1, 5, 4, 3, 2], [1, 3, 2, 0, 0]])
READ = "encoder.layers.0.self_attention/multi_head_attention"

EDITS = {
    "an entry of a parameter": [SetEntry("decoder.layers.0.feed_forward.w1", (2, 1), 1.5)],
    "an entry of a shared parameter": [SetEntry("source_embedding.table", (3, 0), -0.5)],
    "an entry of an output": [SetEntry(FORWARD, (0, 1, 2), 0.7)],
    "two entries": [SetEntry(READ, (0, 1, 2), 0.7), SetEntry(READ, (1, 0, 0), -2.0)],
    "an entry of a view": [SetEntry("/transpose", (1, 4), 0.3)],
    "an entry of the logits": [SetEntry("/linear", (0, 2, 3), 0.3)],
    "a weight": [SetWeight(CROSS, (0, 1, 2, 1), 0.9)],
    "a hidden weight": [SetWeight(OWN, (1, 0, 0, 2), 0.4)],
    "a head": [HeadOff(CROSS, 1)],
    "attention": [SublayerOff("encoder.layers.0.self_attention")],
    "feed-forward": [SublayerOff("decoder.layers.0.feed_forward")],
    "a layer": [LayerOff("decoder.layers.0")],
    "hidden": [SetMask(CROSS, (2, 0), False)],
    "shown": [SetMask(OWN, (0, 2), True)],
    "nothing to see": [SetMask(OWN, (0, 0), False)],
    "the temperature of scores": [Temperature(READ, 0.4)],
    "the temperature of logits": [Temperature("/linear", 2.5)],
    "all in one attention": [
        SetEntry(CROSS, (0, 0, 1), 0.2),
        HeadOff(CROSS, 0),
        SetWeight(CROSS, (0, 1, 1, 2), -0.3),
        Temperature(CROSS, 1.7),
        SetMask(CROSS, (1, 1), False),
    ],
}


SMOOTHED, BETWEEN = Loss(label_smoothing=0.1), LogProbabilityDifference(2, 3, 5)


@pytest.fixture(scope="module")
def unedited(model):
    return {objective: trace(model, SOURCE, TARGET, objective) for objective in (SMOOTHED, BETWEEN)}


@pytest.fixture(scope="module")
def layouts(model):
    return {objective: layout_of(twin(model), SOURCE, TARGET, objective) for objective in (SMOOTHED, BETWEEN)}


def objective_of(model, edits, objective, layouts):
    """Return a function of directions, by the key of a step or parameter: the objective with all of them added."""
    other = twin(model)
    editor = Editor(other, edits, layouts[objective])
    values = {name: (parameter, parameter.data) for name, parameter in other.named_parameters()}

    def run(directions, scale):
        for name, (parameter, value) in values.items():
            parameter.data = value + scale * directions.get(name, 0.0)

        def see(call):
            return call.value + scale * directions.get(call.key, 0.0), call.backward

        with mt.no_grad(), editor.watching(see):
            return objective(other(SOURCE, TARGET[:, :-1]), TARGET[:, 1:]).item()

    return run


def check_gradients(model, edits, unedited, layouts):
    """Compare gradients of an edited model with central differences along random directions."""
    objective, h = SMOOTHED, 2e-6
    found, run = trace(model, SOURCE, TARGET, objective, edits), objective_of(model, edits, objective, layouts)
    assert found.value != unedited[objective].value
    rng = np.random.default_rng(len(edits))
    places = [("encoder.", "source_"), ("decoder.", "target_"), ("output", "/")]
    keys = [*found.parameters, *(step.key for step in found.steps)]
    assert all(key.startswith(sum(places, ())) for key in keys)
    for place in places:
        directions = {key: rng.standard_normal(found[key].shape) for key in keys if key.startswith(place)}
        on_device = {key: asarray(direction) for key, direction in directions.items()}
        slope = (run(on_device, h) - run(on_device, -h)) / (2 * h)
        parts = [(found[f"d:{key}"] * d).sum() for key, d in directions.items() if f"d:{key}" in found]
        assert slope == pytest.approx(sum(parts), rel=1e-6, abs=1e-7 * np.abs(parts).max()), place


@pytest.mark.parametrize("kind", EDITS)
def test_gradients_of_an_edited_model_are_those_of_finite_differences(model, unedited, layouts, kind):
    check_gradients(model, EDITS[kind], unedited, layouts)


LATER = {
    "rotary": {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1, "d_k": 4},
    "alibi": {"norm": "pre", "positions": "alibi", "n_heads": 4, "d_k": 2, "d_v": 3, "n_kv_heads": 2},
}


@pytest.fixture(scope="module", params=LATER)
def later(make_model, request):
    """A later model that applies each sub-layer twice, its traces and its layouts."""
    model = twice(make_model(n_layers=1, attention_bias=True, **LATER[request.param]))
    traces = {objective: trace(model, SOURCE, TARGET, objective) for objective in (SMOOTHED, BETWEEN)}
    return model, traces, {objective: layout_of(twin(model), SOURCE, TARGET, objective) for objective in traces}


IN_ATTENTION = (
    "a weight", "a hidden weight", "a head", "attention", "hidden", "shown", "the temperature of scores",
    "all in one attention",
)  # fmt: skip


@pytest.mark.parametrize("kind", [*IN_ATTENTION, "feed-forward"])
def test_edits_of_the_second_call_in_a_later_model(later, kind):
    model, unedited, layouts = later
    steps = {step.key for step in unedited[SMOOTHED].steps}

    def renamed(edit):
        [name] = {"key", "step", "place"} & vars(edit).keys()
        place, _, step = getattr(edit, name).partition("/")
        value = f"{place}.{place.rpartition('.')[2]}/{step.replace('multi_head', 'grouped_query')}.2"
        return replace(edit, **{name: value if value in steps else value.partition("/")[0]})

    edits = [renamed(edit) for edit in EDITS[kind]]
    check_gradients(model, edits, unedited, layouts)
    if len({type(edit) for edit in edits}) == 1:
        check_first_order(model, edits, unedited, layouts)


@pytest.mark.parametrize(
    ("place", "step"), [("encoder.layers.0.self_attention", READ), ("encoder.layers.0.feed_forward", FORWARD)]
)
def test_nothing_flows_past_a_sublayer_that_is_off(model, place, step):
    found = trace(model, SOURCE, TARGET, edits=[SublayerOff(place)])
    assert not found[step].any()
    assert found[f"d:{step}"].any()  # the gradient with respect to the zeros
    for name, parameter in found.parameters.items():
        assert parameter.gradient.any() != name.startswith(place), name


def test_a_sublayer_of_several_steps_is_off_at_its_last(make_model):
    model, place = make_model(n_layers=1, activation="silu"), "encoder.layers.0.feed_forward"
    plain = trace(model, SOURCE, TARGET)
    steps = [step.key.rpartition("/")[2] for step in plain.steps if step.place == place]
    assert steps == ["linear", "silu", "linear.2"]
    found = trace(model, SOURCE, TARGET, edits=[SublayerOff(place)])
    np.testing.assert_array_equal(found[f"{place}/silu"], plain[f"{place}/silu"])
    assert not found[f"{place}/linear.2"].any()
    assert not any(found.parameters[f"{place}.{name}"].gradient.any() for name in ("w1", "b1", "w2", "b2"))


def test_an_overwritten_entry_gets_its_gradient_and_passes_none_on(model):
    step, index = "encoder.layers.0.residual1/add", (0, 1, 2)
    found = trace(model, SOURCE, TARGET, edits=[SetEntry(step, index, 0.7)])
    assert found[step][index] == 0.7
    assert found[f"d:{step}"][index] != 0
    [part] = [part for visit in found.walk if visit.key == READ for part in visit.parts]
    passed = found[f"d:{step}"].copy()
    passed[index] = 0
    np.testing.assert_array_equal(part.gradient, passed)


def test_a_head_that_is_off_is_missing_in_what_the_heads_are_joined_to(model, unedited):
    key, place = f"{CROSS}:multi_head_attention.concat", "decoder.layers.0.cross_attention"
    concat = unedited[SMOOTHED][key].copy()
    concat[:, :, 3:] = 0
    off = trace(model, SOURCE, TARGET, edits=[HeadOff(CROSS, 1)])
    np.testing.assert_array_equal(off[key], concat)
    parameters = dict(model.named_parameters())
    w_out, b_out = (to_numpy(parameters[f"{place}.{name}"].data) for name in ("w_out", "b_out"))
    np.testing.assert_allclose(off[CROSS], concat @ w_out + b_out)


def test_each_layer_has_its_own_sublayers():
    layers = {f"decoder.layers.{i}": [f"decoder.layers.{i}.{name}" for name in SUBLAYERS] for i in (1, 10, 11)}
    steps = {f"{place}/add": (1,) for places in layers.values() for place in places}
    assert Layout(steps, {}, {}, None).layers() == layers


def test_the_order_of_edits_matters_only_where_two_write_to_one_entry(model, layouts):
    edits = EDITS["all in one attention"]
    forward, backward = (objective_of(model, given, SMOOTHED, layouts)({}, 0) for given in (edits, edits[::-1]))
    assert forward == backward
    first, second = SetEntry(CROSS, (0, 0, 1), 0.2), SetEntry(CROSS, (0, 0, 1), 0.5)
    off = SublayerOff("decoder.layers.0.cross_attention")
    found = trace(model, SOURCE, TARGET, edits=[first, second, off])[CROSS]
    assert (found[0, 0, 1], np.count_nonzero(found)) == (0.5, 1)


def test_the_model_stays_as_it_is(model):
    state = model.state_dict()
    trace(model, SOURCE, TARGET, edits=[edit for edits in EDITS.values() for edit in edits])
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert _recording.watch is None
    for operation in (attention, softmax):
        assert (operation.forward, operation.backward) == operation.written


def test_edits_keep_the_type(make_model):
    model = make_model(n_layers=1, dtype="float32")
    found = trace(model, SOURCE, TARGET, edits=[edit for edits in EDITS.values() for edit in edits])
    assert {array.dtype.name for array in found.arrays.values() if array.dtype.kind == "f"} == {"float32"}


class Partly(Edit):
    """A part of another edit: x + share (f(x) - x) in place of f(x)."""

    def __init__(self, whole, share):
        self.whole, self.share = whole, share

    def changes(self, layout):
        for change in self.whole.changes(layout):

            def forward(x, change=change):
                return x + self.share * (change.forward(x) - x)

            yield Change(change.site, change.key, forward, None)


class NewWeights(Edit):
    def __init__(self, step, weights):
        self.step, self.weights = step, weights

    def changes(self, layout):
        yield Change("weights", self.step, lambda x: asarray(self.weights), None)


def check_first_order(model, edits, unedited, layouts):
    """Compare a prediction with the slope from no edit to the edit."""
    objective, h = BETWEEN, 1e-5
    before = unedited[objective]
    whole = edits
    if isinstance(edits[0], SetMask):
        key = f"{edits[0].step}:scaled_dot_product_attention.weights"
        whole = [NewWeights(edits[0].step, trace(model, SOURCE, TARGET, objective, edits)[key])]
    parts = ([Partly(edit, share) for edit in whole] for share in (h, -h))
    sides = [objective_of(model, part, objective, layouts)({}, 0) for part in parts]
    slope = (sides[0] - sides[1]) / (2 * h)
    assert first_order(before, edits) - before.value == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in EDITS if kind != "all in one attention"])
def test_first_order_is_the_slope_from_no_edit_to_the_edit(model, unedited, layouts, kind):
    check_first_order(model, EDITS[kind], unedited, layouts)


def test_first_order_of_a_mask_where_weights_are_too_small_for_the_type(make_model):
    model = make_model(n_layers=1)
    model.decoder.layers[0].cross_attention.w_in.data *= 100
    before, edits = trace(model, SOURCE, TARGET), [SetMask(CROSS, (1, 0), False), SetMask(CROSS, (1, 1), False)]
    weights, after = (found[f"{CROSS}:scaled_dot_product_attention.weights"] for found in (
        before, trace(model, SOURCE, TARGET, edits=edits)))  # fmt: skip
    assert ((weights == 0) & (after > 0.1)).any()
    slope = ((after - weights) * before[f"{CROSS}:scaled_dot_product_attention.d_weights"]).sum()
    assert first_order(before, edits) - before.value == pytest.approx(slope, rel=1e-9)


def test_first_order_of_nothing(unedited):
    before = unedited[SMOOTHED]
    assert first_order(before, []) == before.value


def test_first_order_of_what_has_no_gradient(make_model):
    model = make_model(n_layers=1)
    model.encoder.layers[0].feed_forward.w1.requires_grad = False
    found = trace(model, SOURCE, TARGET)
    assert first_order(found, [SetEntry("encoder.layers.0.feed_forward.w1", (0, 1), 9.0)]) == found.value


def test_edits_may_be_an_iterator(model):
    assert not trace(model, SOURCE, TARGET, edits=iter([SublayerOff("decoder.layers.0.cross_attention")]))[CROSS].any()
