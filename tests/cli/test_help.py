"""The help of every command, made from the declarations of its arguments."""

import re

import pytest
from command_lines import actions_of, name_of

from minitransformer.apps.cli import COMMANDS
from minitransformer.apps.cli.options import OPTIONS, flag_of
from minitransformer.runs import Configuration
from minitransformer.tasks import TASKS, build


@pytest.fixture
def help_of(told, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")

    def call(*words):
        status, out, err = told(*words)
        assert (status, err) == (0, "")
        return out

    return call


def entries(text):
    """Return what a help says of each option, by its name."""
    found = {}
    for entry in re.split(r"\n  (?=-)", text)[1:]:
        head = re.split("\n|  ", entry)[0]
        found |= dict.fromkeys(re.findall(r"--[\w-]+", head), entry)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_names_every_argument_its_choices_and_its_default(help_of, command):
    text = help_of(*command.split(), "--help-all" if command == "train" else "--help")
    options, module = entries(text), COMMANDS[command]
    for action in actions_of(command):
        if command == "train" and action.dest in OPTIONS:
            continue  # depends on the task
        listed = "{" + ",".join(map(str, action.choices or ())) + "}"
        if not action.option_strings:
            shown = action.metavar or (listed if action.choices else action.dest)
            assert re.search(rf"^  {re.escape(shown)}\s+\w", text, re.M)
            continue
        said = options[name_of(action)]
        assert re.search(r"(\n|  ) *\w{2}", said), "an option without a word about it"
        assert action.metavar or not action.choices or listed in said
        if action.default not in (False, None, []) and action.default != "==SUPPRESS==":
            assert f"(default: {action.default})" in said
    for word, value in getattr(module, "WORDS", {}).items():
        assert (f"{value:g}" if isinstance(value, float) else str(value)) in text, f"the help leaves out {word}"


def test_the_help_lists_the_commands_each_with_a_description(help_of):
    listed = r"^  ([\w-]+)\s{2,}(?!show)\w.{10,}"
    assert re.findall(listed, help_of("--help"), re.M) == [*dict.fromkeys(name.split()[0] for name in COMMANDS)]
    experiments = [name.split()[1] for name in COMMANDS if " " in name]
    assert [name for name in re.findall(listed, help_of("measure"), re.M)] == experiments
    assert help_of("measure", "--help") == help_of("measure")
    assert re.fullmatch(r"minitransformer \d+\.\d+\S*\n", help_of("--version"))


@pytest.mark.parametrize("words", [["--help"], ["measure"]])
def test_the_list_of_commands_fits_a_small_screen(told, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    _, text, _ = told(*words)
    assert len(text.splitlines()) < 24  # and the prompt
    assert max(map(len, text.splitlines())) < 80


@pytest.mark.parametrize("task", TASKS)
def test_the_long_help_of_train_has_the_options_of_the_task_with_its_defaults(help_of, task):
    configuration = Configuration.of_task(build(task))
    used = {name for name in OPTIONS if not configuration.build_task().why_ignored(name)}
    shown = entries(help_of("train", task, "--help-all"))
    assert {flag_of(name) for name in OPTIONS} & shown.keys() == {flag_of(name) for name in used}
    for name in used:
        value, sized = configuration.flat()[name], name in configuration.build_task().sized
        default = "by the size of the text" if sized else value
        if default is not None:
            assert f"(default: {default})" in shown[flag_of(name)]


@pytest.mark.parametrize("task", TASKS)
def test_the_short_help_of_train_has_about_ten_options(help_of, task):
    few, every = (
        {name for name in OPTIONS if flag_of(name) in shown}
        for shown in (entries(help_of("train", task, which)) for which in ("--help", "--help-all"))
    )
    assert 9 <= len(few) <= 13
    assert few < every
    assert all(OPTIONS[name].metadata["common"] for name in few)
    assert ("source" in few) == (task == "text")
    assert ("peak" in few) == (task in ("characters", "pronunciation", "text"))


def test_the_help_of_train_shows_what_was_given_before_it(help_of):
    assert "(default: 7)" in entries(help_of("train", "copy", "--steps", "7", "--help"))["--steps"]
    text = help_of("train", "numbers", "--to", "fr", "--help")
    assert "--to" in entries(text)
    assert "the task numbers." in text
    assert "--to" not in entries(help_of("train", "copy", "--help"))


def test_a_help_for_what_cannot_be_is_refused(refused):
    for line, words in (("chess", "chess"), ("--n-layers 0", "--n-layers"), ("copy --longest 9", "--longest")):
        for which in ("--help", "--help-all", "-h"):
            assert words in refused("train", *line.split(), which)
