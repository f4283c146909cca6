"""Requests are read strictly: what is wrong is named."""

import pytest

from minitransformer import tracing
from minitransformer.apps.explorer.body import Body, RequestError, describe_objective, read_edits, read_objective


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: Body("trace", [], ("text",)), "trace: found [], expected an object"),
        (lambda: Body("trace", {"txt": 1}, ("text",)), 'trace: found "txt", expected only text'),
        (lambda: Body("trace", {}, ("text",)).text("text"), "trace: text is missing, expected a text"),
        (lambda: Body("trace", {"text": 5}, ("text",)).text("text"), "trace: text is 5, expected a text"),
        (lambda: Body("t", {"beam": True}, ("beam",)).integer("beam", 1, 1, 9), "beam is true, expected a whole"),
        (lambda: Body("t", {"beam": 2.0}, ("beam",)).integer("beam", 1, 1, 9), "beam is 2.0, expected a whole number"),
        (lambda: Body("t", {"beam": 10}, ("beam",)).integer("beam", 1, 1, 9), "beam is 10, expected a whole number"),
        (lambda: Body("t", {"x": float("nan")}, ("x",)).number("x"), "x is nan, expected a number"),
        (lambda: Body("t", {"x": 1e99}, ("x",)).number("x"), "x is 1e+99, expected a number from -1e+30 to 1e+30"),
        (lambda: Body("t", {"x": [1, "2"]}, ("x",)).integers("x"), 'x is [1, "2"], expected a list'),
        (lambda: Body("t", {"x": [1, -2]}, ("x",)).integers("x"), "x is [1, -2], expected a list"),
        (lambda: Body("t", {"x": [1] * 9}, ("x",)).integers("x", most=8), "expected a list of at most 8"),
        (lambda: Body("t", {"x": {}}, ("x",)).objects("x", 3), "x is {}, expected a list of at most 3 objects"),
        (lambda: read_edits("trace", [{"kind": "explode"}]), 'trace: edit 1 has the kind "explode", expected one of'),
        (lambda: read_edits("trace", [7]), "trace: edit 1 has the kind 7"),
        (lambda: read_edits("t", [{"kind": "head_off", "step": "x"}]), "t: edit 1: head is missing"),
        (lambda: read_edits("t", [{"kind": "head_off", "step": "x", "head": 1, "y": 2}]), 'found "y", expected only'),
        (lambda: read_edits("t", [{"kind": "set_entry", "key": "k", "index": [0], "value": "NaN"}]), "value is"),
        (lambda: read_objective("t", {"kind": "log_probability", "position": 1}), "t: objective: token is missing"),
        (lambda: read_objective("t", "loss"), 't: objective: found "loss", expected an object'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(read, said):
    with pytest.raises(RequestError) as caught:
        read()
    assert said in str(caught.value)


def test_edits_of_every_kind_are_read():
    step = "encoder.layers.0.self_attention/multi_head_attention"
    assert read_edits(
        "trace",
        [
            {"kind": "set_entry", "key": step, "index": [0, 1, 2], "value": 1},
            {"kind": "set_weight", "step": step, "index": [0, 1, 2, 3], "value": 0.5},
            {"kind": "head_off", "step": step, "head": 1},
            {"kind": "sublayer_off", "place": "encoder.layers.0.feed_forward"},
            {"kind": "layer_off", "place": "decoder.layers.0"},
            {"kind": "temperature", "step": "/linear", "value": 2.5},
            {"kind": "set_mask", "step": step, "index": [1, 0], "visible": False},
        ],
    ) == (
        tracing.SetEntry(step, (0, 1, 2), 1),
        tracing.SetWeight(step, (0, 1, 2, 3), 0.5),
        tracing.HeadOff(step, 1),
        tracing.SublayerOff("encoder.layers.0.feed_forward"),
        tracing.LayerOff("decoder.layers.0"),
        tracing.Temperature("/linear", 2.5),
        tracing.SetMask(step, (1, 0), False),
    )


@pytest.mark.parametrize(
    ("value", "objective"),
    [
        ({"kind": "loss"}, tracing.Loss()),
        ({"kind": "log_probability", "position": 2, "token": 5}, tracing.LogProbability(2, 5)),
        ({"kind": "difference", "position": 0, "token": 5, "other": 6}, tracing.LogProbabilityDifference(0, 5, 6)),
    ],
)
def test_objectives_are_read_and_described(value, objective):
    assert read_objective("trace", value) == objective
    assert describe_objective(objective) == value
