"""Every value of a trace against the operations themselves: what each step reads, computes and hands back."""

import re
import sys
from collections import defaultdict

import numpy as np
import pytest
from small_models import SOURCE, TARGET, language_model, model

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.autograd.rules import RULES
from minitransformer.override import override
from minitransformer.tracing import (
    HeadOff,
    LogProbabilityDifference,
    Loss,
    SetEntry,
    SetMask,
    SetWeight,
    Temperature,
    difference,
    modules,
    sources,
)
from minitransformer.tracing.watching import watching

GROUPED = "decoder.layers.0.self_attention/grouped_query_attention"
CROSS = "decoder.layers.0.cross_attention/multi_head_attention"
EDITS = [
    HeadOff(GROUPED, 1), SetMask(GROUPED, (3, 1), False), SetWeight(GROUPED, (1, 0, 2, 1), 0.75),
    Temperature(GROUPED, 0.7), Temperature("/linear", 1.25),
]  # fmt: skip


class Locals:
    """Notes what the arrays of each pass of an operation hold after each of its lines, by function and name."""

    def __init__(self):
        self.passes = {
            getattr(operation.written, part).__code__: (name, part)
            for name, operation in mt.ops.registry.items()
            for part in ("forward", "backward")
        }
        self.held = defaultdict(set)

    def __call__(self, frame, event, argument):
        return self.look if frame.f_code in self.passes else None

    def look(self, frame, event, argument):
        for name, value in frame.f_locals.items():
            if isinstance(value, np.ndarray):
                self.held[(*self.passes[frame.f_code], name)].add(value.tobytes())
        return self.look


def given_to(operation, step, arrays):
    """Return the arguments of a step; those that it lacks are None."""
    lacking = [name for name, one in operation.signature.parameters.items() if one.default is one.empty]
    return dict.fromkeys(lacking) | arrays | step.options


CASES = {
    "transformer": (model, (SOURCE, TARGET), Loss(0.1)),
    "later model": (language_model, (TARGET[:, :5],), LogProbabilityDifference(2, 7, 4, 1)),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    make, ids, objective = CASES[request.param]
    one = make()
    return one, ids, objective, mt.trace(one, *ids, objective=objective)


def test_each_step_is_its_operation_of_what_it_reads(case):
    one, _, _, found = case
    earlier, places = {name for name, _ in one.named_parameters()}, dict(modules(one))
    for step in found.steps:
        operation = mt.ops.registry.get(step.name)
        assert step.place in places
        assert step.key.startswith(f"{step.place}/{step.name}")
        assert found[step.key] is step.output
        for given in step.inputs:
            assert given.key is None or given.key in earlier
            assert given.key is None or found[given.key] is given.array
        if step.name == "concatenate":
            expected = np.concatenate([given.array for given in step.inputs])
        else:
            arrays = {one.name: asarray(one.array) for one in step.inputs}
            if operation:
                expected = operation.forward(**given_to(operation, step, arrays))
            else:
                expected = RULES[step.name].forward(**arrays, **step.options)
        np.testing.assert_array_equal(step.output, to_numpy(expected[0] if isinstance(expected, tuple) else expected))
        earlier.add(step.key)
    after = [step.key for step in found.steps].index("/linear") + 1  # the steps of the objective, not of the model
    assert [step.model_line is None for step in found.steps] == [i >= after for i in range(len(found.steps))]


def test_each_step_hands_back_the_gradients_of_its_operation(case):
    *_, found = case
    sent = {(part.key, part.input): part.gradient for visit in found.walk for part in visit.parts}
    for step in found.steps:
        if (operation := mt.ops.registry.get(step.name)) is None:
            continue
        tensors = {one.name: mt.Tensor(one.array, requires_grad=(step.key, one.name) in sent) for one in step.inputs}
        given = {one.name: tensors[one.name] if tensors[one.name].requires_grad else one.array for one in step.inputs}
        operation(**given_to(operation, step, given)).backward(asarray(step.d_output))
        for name, tensor in tensors.items():
            if tensor.requires_grad:
                np.testing.assert_array_equal(sent[step.key, name], tensor.grad, err_msg=f"{step.key} {name}")


@pytest.mark.numpy_only("reads the local names of running functions")
def test_the_values_inside_are_those_that_the_lines_bind(case):
    """Each is what its name held after some line of the pass, and its line names it."""
    one, ids, objective, found = case
    note, before, other = Locals(), sys.gettrace(), mt.tracing.twin(one)
    try:
        sys.settrace(note)
        objective(other(*ids[:-1], ids[-1][:, :-1]), ids[-1][:, 1:]).backward()
    finally:
        sys.settrace(before)
    texts, n = sources(), 0
    for step in found.steps:
        for part, lines in (("forward", step.forward), ("backward", step.backward)):
            for line in lines:
                assert found[line.key] is line.array
                assert (line.depth == 0) == (line.function == step.name)
                if line.function not in mt.ops.registry:
                    continue
                source, word = texts[f"{line.function}.{part}"], line.name.partition("[")[0]
                text, *following = source.lines[line.number - source.first :]
                whole = [text, *following[:4]] if text.count("(") > text.count(")") else [text]  # of several lines
                assert re.search(rf"\b{word}\b", " ".join(whole)), line.key
                if states := note.held.get((line.function, part, line.name)):
                    assert line.array.tobytes() in states, line.key
                    n += 1
    assert n > 100


def test_the_table_has_a_row_for_each_step(case):
    *_, found = case
    head, *rows = found.table().splitlines()
    assert head.split()[:3] == ["place", "operation", "shape"]
    for row, step in zip(rows, found.steps, strict=True):
        place, name, *shape, norm, gradient = row.split()
        assert (place, name) == (step.place or "(model)", step.key.rpartition("/")[2])
        assert " ".join(shape) == str(step.output.shape)
        assert float(norm) == pytest.approx(np.linalg.norm(step.output), rel=1e-3)
        assert float(gradient) == pytest.approx(np.linalg.norm(step.d_output), rel=1e-3)
    assert str(found) == found.table()


def test_edits_inside_a_later_attention_are_what_they_say():
    """The weights and heads of grouped queries, computed here from its queries, keys and values."""
    found = mt.trace(language_model(), TARGET[:, :5], edits=EDITS)
    q, k, v = (found[f"{GROUPED}:grouped_query_attention.{name}"] for name in ("q_turned", "k_turned", "v"))
    q = q.reshape(2, 4, 4, -1)
    k, v = (np.repeat(x.reshape(2, 2, 4, -1), 2, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) / 0.7
    visible = np.tril(np.ones((4, 4), dtype=bool)) & (TARGET[:, None, None, :4] != 0)
    visible[:, :, 3, 1] = False
    e = np.where(visible, np.exp(scores), 0)
    weights = e / e.sum(axis=-1, keepdims=True)
    weights[1, 0, 2, 1] = 0.75
    shown = found[f"{GROUPED}:scaled_dot_product_attention.weights"]
    np.testing.assert_allclose(shown.reshape(weights.shape), weights, atol=1e-12)
    heads = weights @ v
    heads[:, 1] = 0
    concat = heads.swapaxes(1, 2).reshape(2, 4, -1)
    np.testing.assert_allclose(found[f"{GROUPED}:grouped_query_attention.concat"], concat, atol=1e-12)
    last = found.step("/linear")
    plain = to_numpy(mt.ops.linear(*(asarray(one.array) for one in last.inputs)).data)
    np.testing.assert_allclose(found.logits, plain / 1.25)


# A gradient beside differences


def test_the_points_of_a_curve_of_an_edited_model_are_those_of_two_more_edits():
    one, objective, steps = model(attention_bias=True), LogProbabilityDifference(2, 3, 5, 1), [0.1, 0.01]
    edits, index = [SetWeight(CROSS, (1, 1, 2, 2), 0.6), SetEntry("/linear", (1, 2, 5), 0.3)], (1, 2, 3)
    result = difference(one, SOURCE, TARGET, objective, edits, CROSS, index, steps)
    for point in result.curve:
        high, low = (
            mt.trace(one, SOURCE, TARGET, objective, [*edits, SetEntry(CROSS, index, result.value + h)]).value
            for h in (point.h, -point.h)
        )
        assert point.estimate == pytest.approx((high - low) / (2 * point.h), rel=1e-9)


def test_a_difference_is_divided_by_the_distance_of_the_rounded_values():
    """The objective is the entry less a number near it, so that nothing else is rounded; 1000.1 ± 1e-10 are."""

    class Entry(Loss):
        def __call__(self, logits, targets):
            return logits[0, 2, 3] - 1000.0

    edits = [SetEntry("/linear", (0, 2, 3), 1000.1)]
    result = difference(model(), SOURCE, TARGET, Entry(), edits, "/linear", (0, 2, 3), [1e-10, 1e-11, 1e-12])
    assert [(point.estimate, point.error) for point in result.curve] == [(1.0, 0.0)] * 3


class Twice(mt.nn.Module):
    """A model that holds its only part under two names."""

    def __init__(self):
        self.first = self.second = model()

    def __call__(self, source, target):
        return self.second(source, target)


def test_a_part_that_is_held_twice_has_its_first_place_and_an_error_ends_the_backward_pass():
    def fail(saved, d_y):
        raise ZeroDivisionError

    twice, places = Twice(), []
    with watching(twice, see=lambda call: places.append(call.place)) as watcher:
        loss = Loss()(twice(SOURCE, TARGET[:, :-1]), TARGET[:, 1:])
        with override(mt.ops.softmax, backward=fail), pytest.raises(ZeroDivisionError):
            loss.backward()
        assert not watcher.in_backward()
    assert {place.partition(".")[0] for place in places} == {"first", ""}
