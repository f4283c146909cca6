"""In a terminal every command prints lines that fit its width, and breaks none inside a word."""

import itertools
import os
import struct
import sys
import threading
from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer import ops
from minitransformer.apps.cli import COMMANDS, command_of, main
from minitransformer.console import spread
from minitransformer.testing import examples, prove

fcntl = pytest.importorskip("fcntl", reason="the terminals are those of Unix")
termios = pytest.importorskip("termios")
pytestmark = pytest.mark.numpy_only("what is printed does not depend on the array library")
SIZES = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --workers 1"
RUNS = [run.format(SIZES=SIZES) for run in toml_table(__file__, "RUNS")]
STATUS = toml_table(__file__, "STATUS")


@pytest.fixture
def in_a_terminal(monkeypatch, tmp_path):
    """Return a function that runs a command in a pseudo-terminal so wide, and returns its status and its lines."""

    def run(command, width):
        main_end, end = os.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
        read = []
        reader = threading.Thread(target=lambda: read.extend(iter(lambda: _read(main_end), b"")))
        reader.start()
        with open(os.dup(end), "w") as out, open(end, "w") as err, monkeypatch.context() as patch:
            for name, stream in ("stdout", out), ("stderr", err), ("__stdout__", out):
                patch.setattr(sys, name, stream)
            try:
                status = main(command.split())
            except SystemExit as ended:
                status = ended.code
        reader.join()
        os.close(main_end)
        return status, [part for line in b"".join(read).decode().split("\r\n") for part in line.split("\r")]

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    Path("text.py").write_text("\n".join(f"def function_{i}(x):\n    return x + {i}" for i in range(200)))
    return run


def _read(end):
    try:
        return os.read(end, 1 << 16)
    except OSError:  # Linux, after the other end is closed
        return b""


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(in_a_terminal, measured, monkeypatch, width):
    proof = prove(ops.linear, examples(ops.linear)[0].inputs)
    stand_ins = {
        "cli.gradcheck.prove": lambda *_, **__: proof,
        "cli.text_runs.TEXTS": 2,
        "cli.text_runs.LENGTH": 50,
    }
    stand_ins |= {
        "plots.attention_maps": lambda *given, **_: given[3].write_bytes(b""),
        "explorer.saved._difference": lambda *_: {},
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(f"minitransformer.apps.{name}", stand_in)
    monkeypatch.setattr("tqdm.std.time", itertools.count().__next__)  # so slow that all progress bars are drawn
    commands = [*RUNS, *measured, *STATUS]
    assert {command_of(command.split()) for command in commands} == {*COMMANDS}
    commands += [*(f"{command} --help" for command in COMMANDS), "--help", "measure"]
    wrapped = {}
    for command in commands:
        status, lines = in_a_terminal(command, width)
        assert status == STATUS.get(command, 0), (command, lines)
        # A long path, of this test's folder for example, has no place to break.
        if wide := [line for line in lines if len(spread(line)) > width >= max(map(len, line.split()), default=0)]:
            wrapped[command] = wide
    assert not wrapped, "\n".join(f"{c}: {line}" for c, lines in wrapped.items() for line in lines)


def test_a_terminal_gets_no_colours(in_a_terminal, monkeypatch):
    """Also where the environment asks for them: Python 3.14 would colour helps."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    for command in ("--help", "train --help", "learn list", "translate nowhere x"):
        assert not any("\x1b" in line for line in in_a_terminal(command, 80)[1])
