"""A command in several processes: the first one prints, errors name their process, and all end together."""

import sys
from types import SimpleNamespace

import pytest

from minitransformer.apps.cli import COMMANDS, main, processes, running
from minitransformer.apps.cli.processes import quiet


class Processes:
    """Processes that remember with which status they were ended."""

    def __init__(self, rank=1, size=2):
        self.rank, self.size, self.statuses = rank, size, []

    def abort(self, status):
        self.statuses.append(status)


def run_in(ranks, monkeypatch, run):
    """Run a command in one of several processes."""
    monkeypatch.setattr(running, "start_ranks", lambda args: None)
    monkeypatch.setattr(running, "launched_rank", lambda: ranks.rank)
    args = SimpleNamespace(command="work", ranks=ranks)
    return running.run_parsed(lambda: args, {"work": SimpleNamespace(run=run)})


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0)
    monkeypatch.setattr(processes, "LAST_WORDS", 0)


@pytest.mark.parametrize(("rank", "printed"), [(None, "words\n"), (0, "words\n"), (1, ""), (2, "")])
def test_the_first_process_prints(capsys, rank, printed):
    with quiet(rank):
        print("words")
    assert capsys.readouterr().out == printed


def test_an_error_is_told_with_the_number_of_its_process(monkeypatch, capsys):
    ranks = Processes()
    assert run_in(ranks, monkeypatch, lambda args: print("no disk\nat all", file=sys.stderr) or 2) == 2
    assert capsys.readouterr().err == "process 1: no disk\nprocess 1: at all\n"
    assert ranks.statuses == [2]


def test_an_exception_ends_all_processes(monkeypatch, capsys):
    ranks = Processes(rank=0)
    assert run_in(ranks, monkeypatch, lambda args: 1 // 0) == 1
    assert ranks.statuses == [1]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_success_ends_no_other_process(monkeypatch):
    ranks = Processes()
    assert run_in(ranks, monkeypatch, lambda args: 0) == 0
    assert ranks.statuses == []


def test_a_command_for_one_process_is_refused_in_several(monkeypatch, capsys):
    monkeypatch.setattr(COMMANDS["paths"], "run", lambda args: 0)
    assert main(["paths"]) == 0
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert main(["paths"]) == 2
    assert "paths runs in one process; start it without mpiexec or srun" in capsys.readouterr().err


SMALL = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "1", "--batch-tokens", "512"]


@pytest.mark.numpy_only("there are several shares on a CPU only")
@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize(
    ("options", "installed", "told"), [([], True, 1), ([], False, 0), (["--workers", "2"], True, 0)]
)
def test_processes_are_recommended_where_they_are_faster(monkeypatch, tmp_path, capsys, options, installed, told):
    monkeypatch.setattr("minitransformer.apps.cli.train.find_spec", lambda name: installed or None)
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 2)
    monkeypatch.setattr(
        "minitransformer.training.preparing.compare_processors", lambda ranks: ["two kinds of processors"]
    )
    assert main(["train", "copy", *SMALL, *options, "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("put mpiexec -n 2 before the command") == told
    assert "note      two kinds of processors\n" in captured.out
