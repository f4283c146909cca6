"""Requests are read strictly: what is wrong is named."""

import pytest
from toml_cases import cases_from_toml, told

from minitransformer import tracing
from minitransformer.apps.explorer import body
from minitransformer.apps.explorer.body import describe_objective, read_edits, read_objective


@cases_from_toml
def test_a_call_has_its_answer(call, said):
    """What is read, or the whole message about what is wrong."""
    assert told(call, vars(body)) == said


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
