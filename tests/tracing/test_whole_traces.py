"""Whole traces, differences and searches of tiny models, compared with approved ones."""

import linecache
from pathlib import Path

import numpy as np
import pytest
from approved import check_approved_values
from small_models import SOURCE, TARGET, language_model, model

import minitransformer as mt
from minitransformer.stand_ins import standing_in
from minitransformer.tracing import (
    HeadOff,
    LayerOff,
    LogProbabilityDifference,
    Loss,
    SetEntry,
    SetMask,
    SetWeight,
    Temperature,
    beam_tree,
    difference,
    sources,
    write,
)
from minitransformer.tracing.watching import watching

ROOT = Path(mt.__file__).parent
OWN = "decoder.layers.0.self_attention/grouped_query_attention"
EDITS = [HeadOff(OWN, 1), SetMask(OWN, (3, 1), False), SetWeight(OWN, (1, 0, 2, 1), 0.75), Temperature("/linear", 1.25)]
STEPS = [0.1, 0.01]


def seen(array):
    """Return the shape of an array and a sum in which each entry has a weight of its own."""
    if array is None:
        return ["none"]
    numbers = np.nan_to_num(array.astype(np.float64).ravel(), neginf=-99.0)  # hidden scores
    return [str(array.shape), float(numbers @ np.cos(np.arange(array.size)))]


def source_line(line, direction):
    """Return the text of the line that a value is from."""
    found = sources().get(f"{line.function}.{direction}") or sources()[line.function]
    return linecache.getline(str(ROOT / found.file), line.number).strip()[:60]


def whole(found):
    steps = {}
    for step in found.steps:
        assert all(found[line.key] is line.array for line in (*step.forward, *step.backward))
        file = Path((step.model_line or [""])[0]).name
        steps[step.key] = {
            "from": [step.place, step.name, file, str(step.options)],
            "inputs": [[one.name, one.key, *seen(one.array)] for one in step.inputs],
            "output": [*seen(step.output), *seen(step.d_output)],
        } | {
            direction: [
                [line.key, line.name, line.function, line.depth, *seen(line.array), source_line(line, direction)]
                for line in lines
            ]
            for direction, lines in (("forward", step.forward), ("backward", step.backward))
        }
    return {
        "value": found.value,
        "logits": seen(found.logits),
        "steps": steps,
        "parameters": {name: [*seen(one.value), *seen(one.gradient)] for name, one in found.parameters.items()},
        "walk": [[one.key, *(f"{part.key} {part.input}" for part in one.parts)] for one in found.walk],
        "parts": [[*seen(part.gradient)] for one in found.walk for part in one.parts],
        "gradients": {key: found.gradient_key(key) for key in found.arrays if not key.startswith("d:")},
        "table": found.table().splitlines(),
    }  # fmt: skip


def differences():
    one, found = model(attention_bias=True), {}
    cross = "decoder.layers.0.cross_attention/multi_head_attention"
    for key, index in {
        "source_embedding.table": (3, 2),
        "decoder.layers.0.feed_forward.b1": (4,),
        cross: (1, 2, 3),
        f"{cross}:scaled_dot_product_attention.weights": (1, 1, 2, 1),
    }.items():
        for edits in ([], [SetWeight(cross, (1, 1, 2, 2), 0.6), SetEntry("/linear", (1, 2, 5), 0.3)]):
            result = difference(one, SOURCE, TARGET, LogProbabilityDifference(2, 3, 5, 1), edits, key, index, STEPS)
            found[f"{key} {len(edits)}"] = [result.value, result.gradient, result.estimate, *map(list, result.curve)]
    return found


def searches():
    found = {}
    cross = "decoder.layers.0.cross_attention/multi_head_attention"
    one, rows = model(n_layers=2), {"free": [], "edited": [HeadOff(cross, 1), SetEntry("/linear", (0, 1, 6), 2.0)]}
    rows["without a layer"] = [LayerOff("decoder.layers.1")]
    rows["edited"].append(HeadOff("encoder.layers.0.self_attention/multi_head_attention", 0))
    for name, edits in rows.items():
        tree = beam_tree(one, SOURCE[1:], 3, 1.5, 4, edits, 2)
        found[f"tree, {name}"] = [
            [*map(str, (node.id, node.parent, node.token, node.fate)), node.step, node.log_probability, node.score]
            for node in tree.nodes
        ] + [[tree.winner, *tree.tokens(tree.winner)]]
        choices = write(one, SOURCE[1:], [4], edits, 5, 3, 0.8)
        found[f"written, {name}"] = [
            [choice.token, choice.probability, choice.forced, *(x for pair in choice.alternatives for x in pair)]
            for choice in choices
        ]
    return found


WHOLE = {
    "transformer": lambda: whole(mt.trace(model(), SOURCE, TARGET, Loss(0.1))),
    "edited language model": lambda: whole(
        mt.trace(language_model(), TARGET[:, :5], objective=LogProbabilityDifference(2, 7, 4, 1), edits=EDITS)
    ),
    "differences": differences,
    "searches": searches,
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_found_is_what_was_found_when_it_was_read(name):
    check_approved_values(Path(__file__).parent / "approved_traces" / f"{name.replace(' ', '_')}.json", WHOLE[name]())


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
        with standing_in({mt.ops.softmax.backward: fail}), pytest.raises(ZeroDivisionError):
            loss.backward()
        assert not watcher.in_backward()
    assert {place.partition(".")[0] for place in places} == {"first", ""}
