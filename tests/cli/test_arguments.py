"""Arguments of the command line that make no sense are refused by name, in one line, before any work."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import actions_of, line_of, name_of, takes_a_value
from toml_cases import toml_table

from minitransformer.apps.cli import COMMANDS, _parse
from minitransformer.apps.cli.errors import LONGEST, one_line
from minitransformer.apps.cli.measure import tell
from minitransformer.apps.cli.parser import _listed, check_ranges

OF_A_RUN = [command for command in COMMANDS if "run" in {action.dest for action in actions_of(command)}]
MEASURING = [command for command in COMMANDS if {"plot", "json"} <= {action.dest for action in actions_of(command)}]


@pytest.fixture(autouse=True)
def nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert {*os.listdir()} <= {"file", "link", "r.toml", "wrong.toml"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_out_of_its_range_is_refused_and_both_ends_belong_to_it(command, refused):
    actions = {name_of(action): action for action in actions_of(command)}
    for name, settings in _listed(command):
        for end, step in (("least", -1), ("most", 1)):
            if end in settings:
                check_ranges(argparse.Namespace(command=command, **{actions[name].dest: settings[end]}))
                message = refused(*line_of(command, actions[name], settings[end] + step))
                assert all(word in message for word in (name, f"{settings[end]}", f"found {settings[end] + step}"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_choice_is_accepted_and_another_one_refused(command, refused):
    for action in actions_of(command):
        for choice in action.choices or ():
            found = getattr(_parse(line_of(command, action, choice)), action.dest)
            assert found in (choice, [choice])
            near = refused(*line_of(command, action, f"{choice}{choice[-1]}"))
            assert f"did you mean {choice!r}" in near
        if action.choices:
            message = refused(*line_of(command, action, "xyzzy"))
            name = name_of(action) if action.option_strings else action.metavar or action.dest
            assert all(word in message for word in ("xyzzy", name, *action.choices))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_of_another_type_is_refused(command, refused):
    for action in actions_of(command):
        if takes_a_value(action) and action.type in (int, float):
            assert name_of(action) in (message := refused(*line_of(command, action, "many")))
            assert "'many'" in message
        elif takes_a_value(action) and action.type is not None and "path" in action.type.__name__:
            for impossible in ("", "x" * 5000):
                assert name_of(action) in refused(*line_of(command, action, impossible))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_and_an_equals_sign_in_place_of_a_name_are_refused(command, refused):
    assert "--xyzzy" in refused(*line_of(command), "--xyzzy")
    assert "--=5" in refused(*line_of(command), "--=5")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_an_argument_needs_is_asked_for(command, refused):
    required = [action for action in actions_of(command) if action.required]
    if required:
        message = refused(*command.split())
        assert all(name_of(action) in message for action in required)
    for action in actions_of(command):
        if takes_a_value(action) and action.option_strings:
            assert name_of(action) in refused(*line_of(command, action), f"{name_of(action)}=--")


@pytest.mark.parametrize("command", OF_A_RUN)
def test_a_folder_that_is_no_run_is_named(command, refused):
    (run,) = (action for action in actions_of(command) if action.dest == "run")
    Path("file").write_text("no folder")
    line = [word if word != "x" or command == "export" else "one" for word in line_of(command, run, "no\nrun")]
    for folder, shown in (("no\nrun", r"no\nrun"), ("file", "file"), (".", "configuration.json")):
        assert shown in refused(*(folder if word == "no\nrun" else word for word in line))


@pytest.mark.numpy_only("some measurements are of the processor")
@pytest.mark.parametrize("command", MEASURING)
def test_a_measurement_that_could_not_be_written_is_refused(command, refused, monkeypatch):
    Path("file").write_text("no folder")
    line = [word if word != "x" else "." for word in line_of(command)]
    if command == "measure heads":  # reads the run first
        monkeypatch.setattr("minitransformer.apps.cli.measure.load_chosen", lambda *_, **__: None)
        monkeypatch.setattr("minitransformer.apps.cli.measure.held_out_groups", lambda *_: None)
        monkeypatch.setattr("minitransformer.apps.cli.own_parts.model.read_record", lambda run: None)
    for option, path in (("--plot", "x.foo"), ("--plot", "file/x.png"), ("--json", "."), ("--json", "file/x.json")):
        message = refused(*line, option, path)
        assert option in message
        assert path in message
    assert ".png" in refused(*line, "--plot", "x.foo")


@pytest.mark.numpy_only("--backend has another default on another library")
@pytest.mark.parametrize(("line", "words"), toml_table(__file__, "REFUSED"))
def test_a_command_line_that_makes_no_sense_is_refused(refused, line, words):
    """The message has the option to change, the value found, and what would be possible."""
    Path("file").write_text("no folder")
    Path("link").symlink_to("nowhere")
    Path("r.toml").write_text('task = "copy"\n')
    Path("wrong.toml").write_text('task = "copy"\nn_layers = 0\n')
    message = refused(*shlex.split(line))
    assert [word for word in words if word not in message.replace("'", "")] == [], message


def test_no_argument_shows_the_help(told):
    status, out, err = told()
    assert (status, out) == (2, "")
    assert "minitransformer train" in err
    assert all(command.partition(" ")[0] in err for command in COMMANDS)


def test_a_message_is_one_line_of_some_length(capsys):
    tell("row\nof\x1b[2J a file")
    assert capsys.readouterr() == ("", "row\\nof\\x1b[2J a file\n")
    assert one_line("a\nb\t\x1b\u2028\ud800 ä") == r"a\nb\t\x1b\u2028\ud800 ä"
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 2 * LONGEST)))
    for length in (LONGEST, LONGEST + 1, 2 * LONGEST):
        found = one_line(text[:length])
        assert len(found) < LONGEST + 10
        assert (found == text[:length]) == (length == LONGEST)
        assert found.startswith(text[: LONGEST // 2])
        assert found.endswith(text[length - LONGEST // 2 : length])


STOPPED = toml_table(__file__, "STOPPED")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("name", ["numpy", "minitransformer.apps.cli"])
@pytest.mark.parametrize("program", ["console", "module"])
def test_ctrl_c_while_modules_are_loaded_is_no_traceback(name, program):
    run = "import runpy; runpy.run_module('minitransformer', run_name='__main__')"
    code = run if program == "module" else "from minitransformer.__main__ import run; run()"
    argv = ["-m" if program == "module" else "/usr/bin/minitransformer", "train"]
    script = STOPPED.format(argv=argv, name=name, code=code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_program_that_imports_the_package_gets_its_interrupt():
    script = STOPPED.format(argv=["program"], name="numpy", code="import minitransformer.ops")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8")
    assert done.returncode in (130, -signal.SIGINT)
    assert "KeyboardInterrupt" in done.stderr
