"""In a terminal every command prints lines that fit its width, and breaks none inside a word."""

import os
import struct
import sys
import threading
from pathlib import Path

import pytest
from bench import made_up
from toml_cases import toml_table

from minitransformer import ops
from minitransformer.apps.cli import COMMANDS, main
from minitransformer.apps.paper.variations import Result
from minitransformer.testing import examples, prove

fcntl = pytest.importorskip("fcntl", reason="the terminals are those of Unix")
termios = pytest.importorskip("termios")
pytestmark = pytest.mark.numpy_only("what is printed does not depend on the array library")
SIZES = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --workers 1"
RUNS = [run.format(SIZES=SIZES) for run in toml_table(__file__, "RUNS")]
STATUS = toml_table(__file__, "STATUS")
MEASURED = ("bench", "bench --scale", "bench --decode", "bench --processes", "table1", "paths", "recall")
MEASURED += ("extrapolation", "extrapolation --layers", "table3 A --seeds 0 1", "changes characters")
RATIO = {"median": 0.97, "least": 0.91, "most": 1.04}
KINDS = ("self-attention", "recurrent", "convolutional", "restricted self-attention")
COSTS = {
    "sums": {name: {"fit": {"k n d": 2.0, "n d²": 2.0}} for name in ("separable convolution", "with attention")},
    "convolution over recurrence": {"factor": 0.41, "points": [{"ratio": 0.45, "k": k} for k in (3, 5, 9)]},
    "heads": [{"heads": n, "products": 1.0, "operations": 1.012} for n in (1, 2, 4, 8)],
    "attention over recurrence": {"d": 64, "batch": 8, "turns": 5, "points": [
        {"n": n, "time": dict.fromkeys(KINDS[::3], RATIO), "operations": dict.fromkeys(KINDS[::3], 0.5)}
        for n in (16, 64)
    ]},
}  # fmt: skip
RECALL = {"accuracy": [99.5, 100, 98], "reach": 8}
HELD = {"accuracy": [[0.5] * 16], "pieces": 0.5, "garbled": 0.5, "weight": [[0.2] * 16]}
HELD |= {"near": dict.fromkeys(("all", "nearest", "thinned"), 0.5), "far": dict.fromkeys(("all", "thinned"), 0.5)}
CHANGED = {"d_ff": 1024, "parameters": 804_096, "cost": 1.25, "steps": 1000, "bits": [2.1, 2.2], "changes": {"n": 1}}
FOUND = {
    "bench.measure_speed": made_up.result(),
    "bench.measure_growth": made_up.growth(),
    "bench.measure_decoding": made_up.decoding(),
    "bench.measure_processes": made_up.processes(),
    "table1.measure_table1": made_up.table1() | {"costs": COSTS},
    "paths.measure_paths": made_up.table1(),
    "recall.measure_recall": {
        "kinds": {name: {"points": [RECALL], "reach": 8} for name in KINDS}, "distances": [8], "chance": 0.1
    },
    "extrapolation.measure_extrapolation": {
        "sizes": {"n": 8}, "distance": 4, "times": 2, "chance": 0.1,
        "kinds": {name: dict.fromkeys(("sinusoidal", "learned"), HELD) for name in KINDS},
    },
    "extrapolation.measure_positions": {
        "sizes": {"n": 16}, "lengths": [16, 24, 32, 64], "seeds": [0, 1, 2], "tasks": {"copy": {
            "title": "copy", "chance": 0.1, "contexts": {"1": [0.1] * 4},
            "kinds": dict.fromkeys(("sinusoidal", "rotary"), [HELD | {"accuracy": [0.5] * 4, "weight": [0.1] * 4}] * 3),
        }},
    },
    "changes.measure_changes": {
        "title": "text, character by character", "measure": "bits per character", "seeds": [0, 1], "level": 0.95,
        "rows": dict.fromkeys(("base", "swiglu"), CHANGED | {"ratio": dict.fromkeys(("mean", "low", "high"), 0.987)}),
    },
}  # fmt: skip
"""What the measuring commands would find."""


def trained(_, configurations, seeds, *__):
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
    for name, found in FOUND.items():
        monkeypatch.setattr(f"minitransformer.apps.cli.{name}", lambda *_, found=found, **__: found)
    monkeypatch.setattr("minitransformer.apps.cli.table3.train_variations", trained)
    proof = prove(ops.linear, examples(ops.linear)[0].inputs)
    monkeypatch.setattr("minitransformer.apps.cli.gradcheck.prove", lambda *_, **__: proof)
    commands = [*RUNS, *MEASURED, *STATUS]
    assert {command.split()[0] for command in commands} == {*COMMANDS}
    commands += [*(f"{command} --help" for command in COMMANDS), "--help"]
    wrapped = {}
    for command in commands:
        status, lines = in_a_terminal(command, width)
        assert status == STATUS.get(command, 0), (command, lines)
        if wide := [line for line in lines if len(line) > width]:
            wrapped[command] = wide
    assert not wrapped, "\n".join(f"{c}: {line}" for c, lines in wrapped.items() for line in lines)
