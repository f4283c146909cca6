"""In a terminal every command prints lines that fit its width, and breaks none inside a word."""

import itertools
import os
import re
import struct
import sys
import threading
from pathlib import Path

import made_up
import pytest
from approved import check_approved
from toml_cases import toml_table

from minitransformer import ops
from minitransformer.apps.cli import COMMANDS, main
from minitransformer.apps.paper.variations import Result
from minitransformer.console import spread
from minitransformer.testing import examples, prove

fcntl = pytest.importorskip("fcntl", reason="the terminals are those of Unix")
termios = pytest.importorskip("termios")
pytestmark = pytest.mark.numpy_only("what is printed does not depend on the array library")
SIZES = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --workers 1"
RUNS = [run.format(SIZES=SIZES) for run in toml_table(__file__, "RUNS")]
STATUS = toml_table(__file__, "STATUS")
MEASURED = toml_table(__file__, "MEASURED")
FOUND = toml_table(__file__, "FOUND") | {
    "bench.bench.measure_speed": made_up.result(),
    "bench.bench.measure_growth": made_up.growth(),
    "bench.bench.measure_decoding": made_up.decoding(),
    "bench.bench.measure_processes": made_up.processes(),
    "paths.measure_paths": made_up.table1(),
}
FOUND["table1.measure_table1"] = made_up.table1() | {"costs": FOUND.pop("table1.costs")}
"""What the measuring commands would find."""
ASKED = []
"""What they ask for."""


def trained(folder, configurations, seeds, *__):
    ASKED.append(f"{folder} {seeds} { {name: one.training.steps for name, one in configurations.items()} }")
    scores = {"valid_loss": 0.5, "exact_match": 0.5, "seconds": 31.0}
    return {name: [Result(one, 804_096, scores)] * len(seeds) for name, one in configurations.items()}


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
def test_no_line_is_wider_than_the_terminal(in_a_terminal, monkeypatch, width):
    proof, calls = prove(ops.linear, examples(ops.linear)[0].inputs), []
    stand_ins = {f"cli.{at}": lambda *of, one=one, **by: ASKED.append(f"{of} {by}") or one for at, one in FOUND.items()}
    stand_ins |= {
        "cli.gradcheck.prove": lambda *_, **__: proof,
        "cli.table3.train_variations": trained,
        "cli.text_runs.TEXTS": 2,
        "cli.text_runs.LENGTH": 50,
    }
    stand_ins |= {"plots.attention_maps": lambda *_, **__: None, "explorer.saved._difference": lambda *_: {}}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(f"minitransformer.apps.{name}", stand_in)
    monkeypatch.setattr("tqdm.std.time", itertools.count().__next__)  # so slow that all progress bars are drawn
    commands = [*RUNS, *MEASURED, *STATUS]
    assert {command.split()[0] for command in commands} == {*COMMANDS}
    commands += [*(f"{command} --help" for command in COMMANDS), "--help"]
    wrapped = {}
    for command in commands:
        status, lines = in_a_terminal(command, width)
        calls += [f"$ {command}", *ASKED] if command in MEASURED else []
        ASKED.clear()
        assert status == STATUS.get(command, 0), (command, lines)
        # A long path, of this test's folder for example, has no place to break.
        if wide := [line for line in lines if len(spread(line)) > width >= max(map(len, line.split()), default=0)]:
            wrapped[command] = wide
    text = re.sub("<function (.*?) at .*?>", r"\1", "\n".join([*calls, ""]))
    check_approved(Path(__file__).with_name("approved_calls.txt"), text)
    assert not wrapped, "\n".join(f"{c}: {line}" for c, lines in wrapped.items() for line in lines)
