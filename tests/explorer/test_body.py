"""Requests are read strictly: what is wrong is named."""

import pytest
from toml_cases import cases_from_toml, told

from minitransformer import tracing
from minitransformer.apps.explorer import body
from minitransformer.apps.explorer.body import RequestError, describe_objective, read_objective


@cases_from_toml
def test_what_is_refused(call, named):
    with pytest.raises(RequestError) as refused:
        eval(call, dict(vars(body)))
    message = f"{refused.value}"
    assert message.startswith(("trace: ", "t: "))  # the request
    assert all(word in message for word in named)
    assert len(message) < 200


@cases_from_toml
def test_what_is_read(call, value):
    assert told(call, vars(body)) == value


@pytest.mark.parametrize("n", [600, 601, 10_000])
def test_a_long_message_keeps_its_beginning_and_its_end(n):
    text = "a" * 300 + "-" * (n - 600) + "b" * 300
    assert f"{RequestError(text)}" == (text if n == 600 else f"{'a' * 300} ... {'b' * 300}")


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
