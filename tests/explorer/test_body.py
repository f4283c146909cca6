"""Requests are read strictly: what is wrong is named."""

import pytest
from toml_cases import cases_from_toml, told

from minitransformer import tracing
from minitransformer.apps.explorer import body
from minitransformer.apps.explorer.body import describe_objective, read_objective


@cases_from_toml
def test_a_call_has_its_answer(call, said):
    """What is read, or the whole message about what is wrong."""
    assert told(call, vars(body)) == said


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
