"""`mpiexec minitransformer ...`: the same bits as one process, one voice, and an end to every fault.

Needs mpi4py and the mpiexec of its MPI: MPICH's or Open MPI's. `tests/parallel/test_process_group.py` does without.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.measure.speed import CONFIGURATIONS, Workload, measure_processes
from minitransformer.runs import RunFolder
from minitransformer.runs.checkpoints import read_checkpoint

BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
OPEN_MPI = MPIEXEC is not None and Path(MPIEXEC).with_name("ompi_info").exists()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None or find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"),
    pytest.mark.numpy_only("the processes would share one GPU"),
]
ROOT = Path(__file__).parents[2]
TRAIN = [
    *("train", "copy", "--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "512", "--dropout", "0.1"),
    *(
        "--micro-batches",
        "8",
        "--blas-threads",
        "1",
        "--steps",
        "6",
        "--evaluate-every",
        "3",
        "--save-every",
        "2",
        "--keep",
    ),
    *("9", "--average-last", "3", "--warmup-steps", "2", "--batch-tokens", "96", "--train-pairs", "60", "--held-out"),
    *("9", "--valid-pairs", "7", "--clip", "0.5", "--accumulate", "2"),
]
ENVIRONMENT = os.environ | {
    **{"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": str(ROOT)},
    **{"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OPENBLAS_NUM_THREADS": "1"},
}
PROGRAM = ["-m", "minitransformer"]
FIRST = Path("run", "checkpoints", "step-00000002.safetensors")
SLOW = toml_table(__file__, "SLOW")


def begin(n, arguments, folder, program=PROGRAM, **options):
    command = [sys.executable, *program, *arguments]
    return subprocess.Popen(
        [MPIEXEC, "-n", str(n), *command], cwd=folder, env=ENVIRONMENT, text=True, errors="replace", **options,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run(n, arguments, folder, program=PROGRAM):
    process = begin(n, arguments, folder, program)
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


def contents(folder):
    """Return all that training decided, without times."""
    files = sorted((folder / "checkpoints").iterdir())
    found = []
    for path in [*files, folder / "best.safetensors"]:
        checkpoint = read_checkpoint(path)
        arrays = {
            f"{part}.{name}": array.tobytes()
            for part in ("model", "optimiser", "mean")
            for name, array in getattr(checkpoint, part).items()
        }
        found.append((path.name, arrays, {**checkpoint.state, "seconds": 0}))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return found, [{**line, "seconds": 0, "tokens_per_second": 0} for line in lines]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    done = subprocess.run(
        [sys.executable, *PROGRAM, *TRAIN, "--workers", "1", "--out", "run"], cwd=folder, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0
    return folder / "run"


def same(folder, alone):
    found, expected = contents(folder), contents(alone)
    assert [name for name, *_ in found[0]] == [name for name, *_ in expected[0]]
    for (name, arrays, state), (_, expected_arrays, expected_state) in zip(found[0], expected[0], strict=True):
        assert state == expected_state, name
        assert arrays.keys() == expected_arrays.keys()
        assert all(arrays[key] == expected_arrays[key] for key in arrays), name
    assert found[1] == expected[1]


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_the_same_bits_whoever_does_the_work(alone, tmp_path, processes):
    status, out = run(processes, [*TRAIN, "--out", "run"], tmp_path)
    assert status == 0, out
    assert out.count("the run is in run") == out.count("exact match on 9 held-out") == 1
    same(tmp_path / "run", alone)


def test_a_run_goes_on_with_another_number_of_processes(alone, tmp_path):
    shutil.copytree(alone, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    for step in (4, 6):
        (folder.checkpoints.path / f"step-{step:08d}.safetensors").unlink()
    status, out = run(3, ["resume", "run"], tmp_path)
    assert status == 0, out
    assert "continuing after step 2" in out
    same(folder.path, alone)


def test_scores_do_not_depend_on_the_processes(alone, tmp_path):
    text = "".join(f"{'7' * n}\t{'7' * n}\n" for n in range(1, 9))
    (tmp_path / "text.tsv").write_text(text)
    for arguments in ([], ["--source", "text.tsv", "--beam", "2"]):
        command = ["evaluate", str(alone), *arguments]
        one = [sys.executable, *PROGRAM, *command]
        printed = subprocess.check_output(one, cwd=tmp_path, env=ENVIRONMENT, text=True)
        assert run(2, command, tmp_path) == (0, printed)


def test_training_on_has_the_same_scores_before_and_after(tmp_path):
    (tmp_path / "text").write_text("Anna und Otto.\n" * 60)
    train = ["train", "characters", "--text", "text", "--window", "16", "--micro-batches", "2", "--steps", "2", "--out"]
    assert (
        run(1, [*train, "run", "--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8"], tmp_path)[0] == 0
    )
    scores = []
    for out in ("one", "two"):
        found = run(1 + len(scores), [*train, out, "--from", "run", "--keep-good", "text"], tmp_path)
        assert found[0] == 0, found[1]
        scores.append(json.loads((tmp_path / out / "adaptation.json").read_text()))
    assert scores[0] == scores[1]


@cases_from_toml
def test_errors_are_told_once(arguments, message, tmp_path):
    status, out = run(2, arguments, tmp_path)
    assert status == 2
    assert out.count(message) == 1
    assert not list(tmp_path.iterdir())


def test_processes_that_differ_are_refused_before_anything_is_written(tmp_path):
    one = [sys.executable, *PROGRAM, *TRAIN, "--out", "run", "--seed"]
    found = subprocess.run(
        [MPIEXEC, "-n", "1", *one, "1", ":", "-n", "1", *one, "2"],
        cwd=tmp_path, env=ENVIRONMENT, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert "process 1 has another option seed than process 0: 2, expected 1" in found.stderr, found.stdout
    assert not list(tmp_path.iterdir())


def test_an_error_in_one_process_ends_all(tmp_path):
    program = ["-c", SLOW.format(fails=True, writes=False, seconds=0)]
    status, out = run(2, [*TRAIN, "--out", "run"], tmp_path, program)
    assert status != 0
    assert out.count("process 1: RuntimeError: this process fails") == 1


def wait_for(path, process):
    """Wait for a file that a process is going to write."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)


def processes_of(folder):
    """Return the ids of the processes that train in a folder, by rank."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            values = dict(
                part.split("=", 1)
                for part in (entry / "environ").read_text(errors="replace").split("\0")
                if "=" in part
            )
            if (
                entry.name.isdigit()
                and (entry / "cwd").resolve() == folder
                and b"-c" in (entry / "cmdline").read_bytes()
            ):
                rank = values.get("PMI_RANK") or values.get("OMPI_COMM_WORLD_RANK")
                if rank is not None:
                    found[int(rank)] = int(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes in /proc")
@pytest.mark.parametrize(("rank", "writes"), [(0, False), (1, False), (0, True), (1, True)])
def test_after_a_kill_the_run_goes_on_to_the_same_bits(alone, tmp_path, rank, writes):
    """Also where the first process is writing a checkpoint; then a part of the next one lies in the folder."""
    program = ["-c", SLOW.format(fails=False, writes=writes, seconds=0 if writes else 0.2)]
    process = begin(2, [*TRAIN, "--out", "run"], tmp_path, program)
    wait_for(tmp_path / ("writing" if writes else FIRST), process)
    os.kill(processes_of(tmp_path)[rank], signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not writes or list((tmp_path / "run").rglob("*.partial"))
    status, out = run(2, ["resume", "run"], tmp_path)
    assert status == 0, out
    same(tmp_path / "run", alone)


def test_ctrl_c_saves_a_checkpoint(alone, tmp_path):
    program = ["-c", SLOW.format(fails=False, writes=False, seconds=0.3)]
    listens = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = begin(2, [*TRAIN, "--out", "run"], tmp_path, program, **listens)
    wait_for(tmp_path / FIRST, process)
    if OPEN_MPI:  # its mpiexec kills the processes a fraction of a second after Ctrl-C
        os.kill(processes_of(tmp_path)[1], signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    steps = [step for step, _ in RunFolder(tmp_path / "run").checkpoints.files()]
    assert steps[-1] in (3, 5)  # not one that was due
    assert run(2, ["resume", "run"], tmp_path)[0] == 0
    np.testing.assert_equal(contents(tmp_path / "run")[0][-2][1:], contents(alone)[0][-2][1:])


def test_the_bytes_that_are_measured_are_those_of_the_theory(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    tiny = Workload().changed(d_model=32, n_heads=2, n_layers=1, d_ff=400, vocabulary=11, batch=4, length=5)
    monkeypatch.setitem(CONFIGURATIONS, "toy", tiny)
    programs = measure_processes(["toy"], 1, False, lambda what: None, [2])["configurations"]["toy"]["programs"]
    assert programs.keys() == {"ours", "alone-1", "alone-2", "processes-2", "processes-2-slow"}
    for name, program in programs.items():
        assert program["failed"] is None, name
    for name in ("processes-2", "processes-2-slow"):
        assert sum(programs[name]["received"]) == pytest.approx(2 * programs[name]["expected_received"], abs=8)
    network = programs["processes-2-slow"]["expected"] - programs["processes-2"]["median"]
    assert programs["processes-2-slow"]["median"] > network > 0.002
