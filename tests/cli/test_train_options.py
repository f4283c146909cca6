"""Every option of a configuration is an option of `train`: its type, its range and its choices."""

import argparse
from collections.abc import Sequence
from typing import get_args

import pytest
from command_lines import actions_of

from minitransformer.apps.cli import _parse
from minitransformer.apps.cli.options import OPTIONS, flag_of
from minitransformer.runs import Configuration

ACTIONS = {action.dest: action for action in actions_of("train")}
KINDS = {name: {*get_args(one.kind), one.kind} for name, one in OPTIONS.items()}


def test_options_of_a_configuration_are_those_of_train():
    flagged = {name for name, one in Configuration.declarations().items() if one.metadata.get("flag")}
    assert flagged == {*OPTIONS} <= {*ACTIONS}
    for name in OPTIONS:
        assert ACTIONS[name].default == argparse.SUPPRESS  # so that a recipe, or the task, decides
        assert flag_of(name) in ACTIONS[name].option_strings


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_read_with_its_type(name):
    if bool in KINDS[name]:
        for flag, value in ((flag_of(name), True), (f"--no-{flag_of(name)[2:]}", False)):
            assert getattr(_parse(["train", flag]), name) is value
        return
    kind = int if int in KINDS[name] else float if float in KINDS[name] else str
    several = any(issubclass(getattr(one, "__origin__", int), Sequence) for one in KINDS[name])
    given = ["3", "4"] if several else ["3"]
    found = getattr(_parse(["train", flag_of(name), *given]), name)
    assert found == ([kind(one) for one in given] if several else kind("3"))
    assert type(found[0] if several else found) is kind
