"""The help of train: the options that most people need, with the defaults of the task that they ask for."""

import re
from pathlib import Path

import pytest
from approved import check_approved

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


@pytest.mark.parametrize("task", TASKS)
def test_about_ten_options_are_shown_and_the_rest_on_request(help_of, task):
    few, every = options_in(help_of(task, "--help")), options_in(help_of(task, "--help-all"))
    assert 9 <= len(few) <= 13
    assert few.keys() < every.keys() <= OPTIONS.keys()
    assert ("source" in few) == (task == "text")
    assert ("peak" in few) == (task in ("characters", "pronunciation", "text"))
    assert {"peak", "keep", "norm"} <= every.keys()


LINES = [
    "",
    *COMMANDS,
    *(f"train {task} --help-all" for task in TASKS),
    "train numbers --to fr",
    "train copy --steps 7",
]


def test_every_help_says_what_is_approved(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "999")  # versions of Python break lines at other places ...
    for line in LINES:
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--help"])
        assert ended.value.code == 0
        print()
    text = re.sub(r"\n? {2,}", "\n  ", capsys.readouterr().out)  # ... and indent others
    check_approved(Path(__file__).with_name("approved_help.txt"), text)


def test_help_for_a_task_that_does_not_exist(capsys):
    with pytest.raises(SystemExit) as error:
        main(["train", "chess", "--help"])
    assert error.value.code == 2
    assert "there is no task 'chess'; the tasks are" in capsys.readouterr().err
