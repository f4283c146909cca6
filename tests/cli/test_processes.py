"""A command in several processes: the first one prints, errors name their process, and all end together."""

import re
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from toml_cases import toml_table

from minitransformer.apps.cli import COMMANDS, main, processes, running
from minitransformer.runs import RunFolder


class Processes:
    """Processes that remember with which status they were ended."""

    def __init__(self, rank=1, size=2):
        self.rank, self.size, self.statuses = rank, size, []

    def abort(self, status):
        self.statuses.append(status)


def run_in(group, monkeypatch, run):
    """Run a command in one of several processes."""
    monkeypatch.setattr(running, "find_group", lambda args: None)
    monkeypatch.setattr(running, "launched_rank", lambda: group.rank)
    args = SimpleNamespace(command="measure paths", group=group)
    return running.run_parsed(lambda: print("parsed") or args, {"measure paths": SimpleNamespace(run=run)})


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0)
    monkeypatch.setattr(processes, "LAST_WORDS", 0)


@pytest.mark.parametrize(("rank", "printed"), [(None, "parsed\nwords\n"), (0, "parsed\nwords\n"), (1, ""), (2, "")])
def test_the_first_process_prints(monkeypatch, capsys, rank, printed):
    group = Processes(rank)
    assert run_in(group, monkeypatch, lambda args: print("words") or 0) == 0
    assert capsys.readouterr() == (printed, "")
    assert group.statuses == []  # no other process is ended


def test_an_error_is_told_with_the_number_of_its_process(monkeypatch, capsys):
    group = Processes()
    assert run_in(group, monkeypatch, lambda args: print("no disk\nat all", file=sys.stderr) or 2) == 2
    assert capsys.readouterr().err == "process 1: no disk\nprocess 1: at all\n"
    assert group.statuses == [2]


def test_an_exception_ends_all_processes(monkeypatch, capsys):
    group = Processes(rank=0)
    assert run_in(group, monkeypatch, lambda args: 1 // 0) == 1
    assert group.statuses == [1]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_command_for_one_process_is_refused_in_several(monkeypatch, refused):
    monkeypatch.setattr(COMMANDS["measure paths"], "run", lambda args: 0)
    assert main(["measure", "paths"]) == 0
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert "mpiexec" in refused("measure", "paths")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "two\n")
    message = refused("measure", "paths")
    assert all(words in message for words in ("OMPI_COMM_WORLD_RANK", r"'two\n'", "OMPI_COMM_WORLD_SIZE", "'2'"))


@pytest.mark.parametrize(
    ("size", "library", "items", "divided"),
    [
        *((1, "numpy", 127, False), (1, "numpy", 128, True), (1, "numpy", 5000, True)),
        *((2, "numpy", 5000, False), (1, "cupy", 5000, False)),
    ],
)
def test_many_items_are_divided_among_the_cores_of_a_single_process(monkeypatch, size, library, items, divided):
    asked = []

    @contextmanager
    def forked(size, *more):
        asked.append((size, *more))
        yield "a process for each core"

    for name, stand_in in (("forked", forked), ("backend", lambda: library)):
        monkeypatch.setattr(processes, name, stand_in)
    monkeypatch.setattr(processes.blas, "cores", lambda: 6)
    group = Processes(size=size)
    with processes.spread_over_cores(group, items) as several:
        assert several == ("a process for each core" if divided else group)
    assert asked == [(6 if divided else 1,)]


SMALL = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "1", "--batch-tokens", "512"]
SMALL += ["--train-pairs", "200", "--held-out", "9"]


PROGRAM = toml_table(__file__, "PROGRAM")


@pytest.mark.numpy_only("processes share the cores of a CPU")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
def test_training_divides_itself_into_processes_that_change_no_bit(tmp_path):
    """After an interruption too, mean weights, the optimiser's state and scores are equal to the bit."""
    options = [*SMALL, "--steps", "5", "--average-last", "4", "--evaluate-every", "2", "--micro-batches", "3"]
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), "train", "copy", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[(2, 3), (2, 3), (1, 3), (3, 3)] [130, 0, 0, 0]"
    runs = [RunFolder(tmp_path / name) for name in ("1", "processes", "3")]
    expected, *found = (load_file(run.path / "checkpoints/step-00000005.safetensors") for run in runs)
    scores = [{**run.measurements.final(), "seconds": 0} for run in runs]
    for arrays, score in zip(found, scores[1:], strict=True):
        assert all(np.array_equal(arrays[name], array) for name, array in expected.items())
        assert score == scores[0]


@pytest.mark.numpy_only("there are several micro-batches on a CPU only")
def test_notes_on_processors_and_on_systems_that_do_not_fork_safely(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 2)
    for module in ("parallel.shared_memory", "training.agreement", "training.preparing"):
        monkeypatch.setattr(f"minitransformer.{module}.FORKS_SAFELY", False)
    monkeypatch.setattr(
        "minitransformer.training.preparing.compare_processors", lambda group: ["two kinds of processors"]
    )
    assert main(["train", "copy", *SMALL, "--workers", "2", "--out", str(tmp_path / "run")]) == 0
    found = capsys.readouterr().out
    assert "note      two kinds of processors\n" in found
    assert re.search("^note      .* one process", found, re.M)
