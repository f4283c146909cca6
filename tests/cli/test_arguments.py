"""Arguments of the command line that make no sense are refused by name, in one line."""

import argparse
import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from approved import check_approved
from toml_cases import toml_table

from minitransformer.apps.cli import main
from minitransformer.apps.cli.errors import LONGEST, UsageError, one_line
from minitransformer.apps.cli.parser import ARGUMENTS, _listed, check_ranges
from minitransformer.apps.cli.results import tell


@pytest.mark.numpy_only("--backend has another default on another library")
def test_a_command_line_that_makes_no_sense_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    Path("link").symlink_to("nowhere")
    Path("r.toml").write_text('task = "copy"\n')
    Path("wrong.toml").write_text('task = "copy"\nn_layers = 0\n')
    said = []
    for line in toml_table(__file__, "REFUSED"):
        try:
            status = main(shlex.split(line))
        except SystemExit as ended:
            status = ended.code
        out, err = capsys.readouterr()
        assert (status, out, err[-1]) == (2, "", "\n"), line
        usage, _, message = err[:-1].rpartition("\n")
        assert usage.startswith("usage:"[: len(usage)]) or "--lang ko" in line
        # versions of argparse quote choices in other ways
        said.append(f"$ {line}\n{message.replace(str(tmp_path), 'HERE')}".replace("'", ""))
        assert sorted(os.listdir()) == ["file", "link", "r.toml", "wrong.toml"], line
    check_approved(Path(__file__).with_name("approved_refusals.txt"), "\n".join(said) + "\n")


def test_what_is_said_of_no_argument_and_of_words_after_an_unknown_one(capsys):
    for line, words in (("", "Begin with\n`minitransformer train`."), ("translate run --fast x", "arguments: --fast")):
        with pytest.raises(SystemExit) as error:
            main(line.split())
        assert error.value.code == 2
        assert words in capsys.readouterr().err


def test_a_standard_input_that_cannot_be_read_is_named(monkeypatch, capsys):
    """Such as a folder. Python itself refuses one that it finds as it starts."""

    class Folder:
        @staticmethod
        def read():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    monkeypatch.setattr("minitransformer.apps.cli.translate.load_chosen", lambda args: None)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Folder))
    assert main(["translate", "run"]) == 2
    assert "translate: cannot read the standard input: Is a directory; give a file" in capsys.readouterr().err


def test_a_message_is_one_line_of_some_length(capsys):
    tell("row\nof\x1b[2J a file")
    assert capsys.readouterr() == ("", "row\\nof\\x1b[2J a file\n")
    assert one_line("a\nb\t\x1b\u2028\ud800 ä") == r"a\nb\t\x1b\u2028\ud800 ä"
    assert len(one_line(10_000 * "x")) < LONGEST + 10


def test_a_recipe_whose_peak_has_no_effect_is_refused(tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "copy"\npeak = 0.1\n')
    assert main(["train", "--config", str(recipe)]) == 2
    assert f"peak in {recipe} has no effect: the rate of the schedule warmup follows" in capsys.readouterr().err
    recipe.write_text('task = "copy"\nschedule = "linear"\npeak = 0.1\n')
    monkeypatch.setattr("minitransformer.apps.cli.train.progress.train", lambda *_: 0)
    assert main(["train", "--config", str(recipe), "--schedule", "warmup", "--out", str(tmp_path / "run")]) == 0


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


@pytest.mark.parametrize("command", ARGUMENTS["commands"])
def test_both_ends_of_a_range_belong_to_it(command):
    for name, settings in _listed(command):
        ends = [(settings[end], step) for end, step in (("least", -1), ("most", 1)) if end in settings]
        for end, step in ends:
            place = name.lstrip("-").replace("-", "_")
            check_ranges(argparse.Namespace(command=command, **{place: end}))
            with pytest.raises(UsageError, match=f"{name} must be .*{end}.*, found {end + step}"):
                check_ranges(argparse.Namespace(command=command, **{place: [end, end + step]}))
