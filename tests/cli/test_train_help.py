"""The help of train: the options that most people need, with the defaults of the task that they ask for."""

import re

import pytest

from minitransformer.apps.cli import COMMANDS, main
from minitransformer.apps.cli.options import OPTIONS
from minitransformer.tasks import TASKS


@pytest.fixture
def help_of(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        with pytest.raises(SystemExit) as error:
            main(["train", *arguments])
        assert error.value.code == 0
        return capsys.readouterr().out

    return call


def options_in(text):
    """The options of a configuration in a help text, with the defaults that it tells."""
    found = {}
    for line in text.partition("\nmodel:")[2].splitlines():
        if match := re.match(r"  --([\w-]+)", line):
            default = re.search(r"\(default: (.*?)\)", line)
            found[match[1].replace("-", "_")] = default and default[1]
    return found


@pytest.mark.parametrize(
    ("arguments", "steps", "layers"),
    [((), 900, 2), (("copy",), 1200, 1), (("numbers", "--to", "fr"), 1300, 2), (("copy", "--steps", "7"), 7, 1)],
)
def test_the_defaults_are_those_of_the_task(help_of, arguments, steps, layers):
    text = help_of(*arguments, "--help")
    found = options_in(text)
    assert (found["steps"], found["n_layers"]) == (str(steps), str(layers))
    assert f"the task {arguments[0] if arguments else 'numbers'}" in text
    assert ("train TASK --help" in text) == (not arguments)


@pytest.mark.parametrize("task", TASKS)
def test_about_ten_options_are_shown_and_the_rest_on_request(help_of, task):
    few, every = options_in(help_of(task, "--help")), options_in(help_of(task, "--help-all"))
    assert 9 <= len(few) <= 13
    assert few.keys() < every.keys() <= OPTIONS.keys()
    assert ("source" in few) == (task == "text")
    assert ("peak" in few) == (task in ("characters", "pronunciation", "text"))
    assert {"peak", "keep", "norm"} <= every.keys()


def test_the_options_stand_in_groups(help_of):
    text = help_of("text", "--help")
    _, _, groups = text.partition("\nmodel:")
    places = [groups.index(words) for words in ("--d-model", "\ntraining:", "--steps", "\ndata:", "--source")]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_without_a_default_shows_none(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert "(default: None)" not in text
    assert "(default: [])" not in text


def test_help_for_a_task_that_does_not_exist(capsys):
    with pytest.raises(SystemExit) as error:
        main(["train", "chess", "--help"])
    assert error.value.code == 2
    assert "there is no task 'chess'; the tasks are" in capsys.readouterr().err
