"""A gradient beside central differences: of parameters, steps and values inside, with and without edits."""

from itertools import pairwise

import numpy as np
import pytest
from small_models import CROSS, FORWARD, OWN, twice

import minitransformer as mt
from minitransformer.override import override
from minitransformer.tracing import (
    HeadOff,
    LogProbability,
    LogProbabilityDifference,
    Loss,
    SetEntry,
    SetMask,
    SetWeight,
    Temperature,
    difference,
    differences,
    trace,
    write,
)

SOURCE = np.array([[3, 4, 6, 2], [5, 2, 0, 0]])
TARGET = np.array([[1, 5, 4, 3, 2], [1, 3, 2, 0, 0]])
EDITS = [SetWeight(CROSS, (0, 1, 1, 2), 0.6), HeadOff(OWN, 0), Temperature(CROSS, 1.5), SetMask(OWN, (0, 1), True)]
EDITS += [HeadOff("encoder.layers.0.self_attention/multi_head_attention", 1)]
ENTRIES = {
    "encoder.layers.0.feed_forward.w1": (2, 1),
    "decoder.layers.0.cross_attention.w_in": (1, 4),
    "output": (3, 2),
    "source_embedding/embedding": (0, 1, 2),
    "encoder.layers.0.residual1.layer_norm/layer_norm": (1, 1, 3),
    CROSS: (1, 0, 2),
    "/transpose": (2, 3),
    "/linear": (0, 2, 3),
    "/log_softmax": (0, 2, 3),
    "/index": (),
    f"{CROSS}:scaled_dot_product_attention.weights": (0, 1, 2, 1),
    f"{OWN}:multi_head_attention.concat": (0, 1, 4),
    f"{CROSS}:multi_head_attention.q": (0, 1, 2, 1),
    f"{FORWARD}:feed_forward.hidden": (0, 2, 0),
}


@pytest.fixture(scope="module")
def traced(model):
    return {bool(edits): trace(model, SOURCE, TARGET, LogProbability(2, 3), edits) for edits in ((), EDITS)}


@pytest.mark.parametrize("edits", [[], EDITS], ids=["", "edited"])
@pytest.mark.parametrize("key", ENTRIES)
def test_gradient_and_estimate_agree(model, traced, key, edits):
    index, found = ENTRIES[key], traced[bool(edits)]
    steps = [1e-3, 1e-4, 1e-5, 1e-6]
    result = difference(model, SOURCE, TARGET, LogProbability(2, 3), edits, key, index, steps)
    assert result.value == found[key][index]
    gradient = found[found.gradient_key(key)]
    assert result.gradient == pytest.approx(gradient.reshape(found[key].shape)[index], rel=1e-12, abs=1e-15)
    assert result.estimate == pytest.approx(result.gradient, rel=1e-6, abs=1e-10)
    assert result.relative_error < 1e-6
    assert [point.h for point in result.curve] == steps
    assert (result.estimate, result.relative_error) in [point[1:] for point in result.curve]


def test_the_curve_falls_as_h_squared_and_rises_where_rounding_takes_over(model):
    curve = difference(model, SOURCE, TARGET, None, [], CROSS, (0, 1, 2)).curve
    errors = {point.h: point.error for point in curve}
    assert list(errors) == pytest.approx([10.0**-n for n in range(1, 13)])
    assert errors[1e-2] == pytest.approx(100 * errors[1e-3], rel=0.1)
    assert errors[1e-12] > 10 * min(errors.values())


class Shifted(LogProbability):
    """A small number beside a large one, which is rounded."""

    def __call__(self, logits, targets):
        return 1e-9 * super().__call__(logits, targets) + 50.0


class Small(LogProbability):
    """An objective near 0, with small gradients: rounding inside it is that of numbers of size 1."""

    def __call__(self, logits, targets):
        return 1e-6 * super().__call__(logits, targets)


@pytest.mark.parametrize("objective", [LogProbability(2, 3), Shifted(2, 3), Small(2, 3)])
@pytest.mark.parametrize("key", [*ENTRIES, "source_embedding.table"])
def test_the_error_that_is_told_is_that_of_the_point_with_the_least_noise(model, key, objective):
    """Change to the next step and rounding, eps max(1, |f|) / h, are the noise of a point; it must stay below 1e-6."""
    index = ENTRIES.get(key, (7, 0))
    result = difference(model, SOURCE, TARGET, objective, [], key, index)
    loss, points = trace(model, SOURCE, TARGET, objective).value, result.curve
    rounding = [2.0**-52 * max(1.0, abs(loss)) / point.h for point in points]
    changes = [abs(one.estimate - other.estimate) for one, other in pairwise(points)]
    noise = [change + error for change, error in zip(changes, rounding[:-1], strict=True)]
    best = noise.index(min(noise))
    assert result.estimate == points[best].estimate
    assert result.relative_error == points[best].error
    for point in points:
        scale = max(abs(result.gradient), abs(point.estimate), rounding[best] / 1e-6)
        assert point.error == pytest.approx(abs(result.gradient - point.estimate) / scale, rel=1e-9)


@pytest.mark.parametrize("sentence", [0, 1])
@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize(("token", "other"), [(2, 5), (5, 2), (4, 4)])
def test_each_objective_is_that_of_its_sentence_position_and_tokens(model, sentence, position, token, other):
    logits = model(SOURCE, TARGET[:, :-1])
    rows = logits.numpy()
    logs = rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    one, two = logs[sentence, position, token], logs[sentence, position, other]
    found = LogProbability(position, token, sentence)(logits, TARGET[:, 1:])
    both = LogProbabilityDifference(position, token, other, sentence)(logits, TARGET[:, 1:])
    np.testing.assert_allclose([found.item(), both.item()], [one, one - two], atol=1e-12)
    counted, smoothing = TARGET[:, 1:] != 0, token / 10
    right = np.take_along_axis(logs, TARGET[:, 1:, None], -1)[..., 0]
    losses = -(1 - smoothing) * right - smoothing * logs.mean(axis=-1)
    found = Loss(label_smoothing=smoothing)(logits, TARGET[:, 1:]).item()
    np.testing.assert_allclose(found, losses[counted].mean())


def test_an_overwritten_entry_moves_too(model):
    edits = [SetEntry(CROSS, (0, 1, 2), 0.3)]
    result = difference(model, SOURCE, TARGET, None, edits, CROSS, (0, 1, 2))
    assert (result.value, result.gradient) == (0.3, pytest.approx(result.estimate, rel=1e-6))
    assert result.gradient != 0


def test_an_entry_on_which_nothing_depends(model):
    result = difference(model, SOURCE, TARGET, None, [], "source_embedding.table", (7, 0))
    assert (result.gradient, result.estimate, result.relative_error) == (0.0, 0.0, 0.0)
    # Padding: its row of the encoder's output is seen by nobody.
    key = "encoder.layers.0.residual2.layer_norm/layer_norm"
    assert difference(model, SOURCE, TARGET, None, [], key, (1, 3, 0)).gradient == 0


def test_a_wrong_backward_pass_shows(model):
    right = mt.ops.softmax.backward

    def wrong(saved, d_y):
        return (1.001 * right(saved, d_y)[0],)

    with override(mt.ops.softmax, backward=wrong):
        result = difference(model, SOURCE, TARGET, None, [], f"{CROSS}:multi_head_attention.q", (0, 1, 2, 1))
    assert result.relative_error == pytest.approx(1e-3, rel=1e-2)


def test_learned_positions_and_shared_tables(make_model):
    model = make_model(n_layers=1, positions="learned", max_length=5, norm="pre")
    model.output = model.target_embedding.table
    for key, index in {"target_embedding.positions": (1, 2), "target_embedding.table": (3, 1)}.items():
        result = difference(model, SOURCE, TARGET, None, EDITS, key, index)
        assert result.estimate == pytest.approx(result.gradient, rel=1e-6)
        assert abs(result.gradient) > 1e-4


def test_second_calls_and_a_bias_for_as_many_heads_as_there_are_sentences_at_a_time(make_model):
    """Four values of two sentences run side by side; the bias of eight heads is no part of their batch."""
    model = twice(make_model(n_layers=1, positions="alibi", n_heads=8, d_k=2, d_v=2))
    own, forward = (f"encoder.layers.0.{name}.{name}" for name in ("self_attention", "feed_forward"))
    for key, index in {
        f"{own}.w_in": (1, 4),
        "source_embedding/embedding": (0, 1, 2),
        f"{own}/grouped_query_attention.2": (1, 0, 2),
        f"{own}/grouped_query_attention.2:scaled_dot_product_attention.weights": (1, 5, 1, 0),
        f"{forward}/feed_forward.2:feed_forward.hidden": (0, 1, 2),
    }.items():
        result = difference(model, SOURCE, TARGET, None, [], key, index, [1e-4, 1e-5, 1e-6])
        assert result.estimate == pytest.approx(result.gradient, rel=1e-6)


def test_an_operation_has_its_options_while_its_lines_are_traced(make_model):
    model, key = make_model(n_layers=1, layer_norm_eps=0.5), "encoder.layers.0.residual1.layer_norm/layer_norm"
    result = difference(model, SOURCE, TARGET, None, [], f"{key}:layer_norm.x_hat", (0, 1, 3), [1e-4, 1e-5])
    assert result.estimate == pytest.approx(result.gradient, rel=1e-6)


@pytest.mark.parametrize("edits", [[], EDITS], ids=["", "edited"])
def test_attention_in_blocks(model, monkeypatch, edits):
    key, index = f"{CROSS}:scaled_dot_product_attention.weights", (0, 1, 2, 1)
    whole = difference(model, SOURCE, TARGET, None, edits, key, index, [1e-4])
    monkeypatch.setattr(mt.nn.layers, "QUERIES", 1)
    blocks = difference(model, SOURCE, TARGET, None, edits, key, index, [1e-4])
    # A product of one row at a time may be rounded in another way.
    assert (blocks.value, blocks.gradient) == (whole.value, whole.gradient)
    assert blocks.estimate == pytest.approx(whole.estimate, rel=1e-9)
    assert write(model, SOURCE[:1], edits=[SetWeight(CROSS, (0, 1, 1, 2), 50.0)], max_length=4) != write(
        model, SOURCE[:1], edits=[SetWeight(CROSS, (0, 1, 1, 2), 0.5)], max_length=4
    )


@pytest.mark.parametrize("n", [2, 0])
@pytest.mark.parametrize("limit", ["TOKENS", "LOGITS"])
def test_few_tokens_at_a_time(model, monkeypatch, limit, n):
    together = difference(model, SOURCE, TARGET, None, EDITS, CROSS, (1, 1, 2), [1e-3, 1e-5, 1e-4])
    one = TARGET.size * model.target_vocab if limit == "LOGITS" else TARGET.size + SOURCE.size
    monkeypatch.setattr(differences, limit, (n + 1) * one - 1)
    sizes, compute = [], differences._Entry._side_by_side
    monkeypatch.setattr(
        differences._Entry, "_side_by_side", lambda entry, values: sizes.append(len(values)) or compute(entry, values)
    )
    apart = difference(model, SOURCE, TARGET, None, EDITS, CROSS, (1, 1, 2), [1e-3, 1e-5, 1e-4])
    assert [point.h for point in apart.curve] == [1e-3, 1e-4, 1e-5]
    assert sizes == ([n] * 3 if n else [1] * 6)
    np.testing.assert_allclose([p.estimate for p in apart.curve], [p.estimate for p in together.curve], rtol=1e-8)


def test_the_model_stays_as_it_is(make_model):
    model = make_model(n_layers=1, positions="learned", max_length=5)
    state = model.state_dict()
    for key in ("output", CROSS, "target_embedding.positions"):
        difference(model, SOURCE, TARGET, None, EDITS, key, (1, 1, 1)[: 3 if key == CROSS else 2], [1e-3])
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    assert all(parameter.grad is None for parameter in model.parameters())
