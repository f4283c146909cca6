"""Where CuPy cannot run, or the GPU is too small, each command says so in a line; its status is not 0."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake_cupy.library import OutOfMemoryError
from fake_cupy.library import cupy as fake_cupy
from toml_cases import toml_table

from minitransformer import arrays
from minitransformer.apps.cli import main

pytestmark = pytest.mark.numpy_only("chooses the library itself")

ARGUMENTS = toml_table(__file__, "ARGUMENTS")


class NoKernels:
    """An array of a CuPy whose driver is there, but not its compiler."""

    def __add__(self, other):
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")


MISSING = {
    "CuPy": (None, r"CuPy is not installed. Install it with: python -m pip install"),
    "a driver": (SimpleNamespace(is_available=lambda: False), "finds no usable NVIDIA GPU"),
    "the toolkit": (
        SimpleNamespace(is_available=lambda: True, arange=lambda n: NoKernels()),
        "cannot run on it; the CUDA toolkit may be missing or of another version. Try: python -m pip install",
    ),
}


@pytest.fixture(autouse=True)
def numpy_afterwards():
    yield
    arrays.use("numpy")


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("command", ARGUMENTS)
def test_what_is_missing_is_said(monkeypatch, tmp_path, capsys, command, missing):
    module, words = MISSING[missing]
    monkeypatch.setitem(sys.modules, "cupy", module)  # None: importing it fails
    out = tmp_path / "run"
    arguments = [str(out) if argument == "OUT" else argument for argument in ARGUMENTS[command]]
    assert main([*command.split(), *arguments, "--backend", "cupy"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"minitransformer {command}: ")
    assert words in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert not out.exists()
    assert arrays.backend() == "numpy"


def test_what_needs_the_processor_is_refused_on_a_gpu(monkeypatch, tmp_path, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    for line, word in toml_table(__file__, "ON_A_GPU").items():
        assert word in refused(*line.split(), "--backend", "cupy")
    assert not any(tmp_path.iterdir())


def test_here_as_it_is(tmp_path):
    """The program itself, with the CuPy and the GPU that there are."""
    command = [sys.executable, "-m", "minitransformer", "train", "copy", "--steps", "2", "--held-out", "5"]
    command += ["--train-pairs", "50", "--out", str(tmp_path / "run"), "--backend", "cupy"]
    environment = {name: value for name, value in os.environ.items() if name != arrays.namespace.BACKEND_VARIABLE}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        assert "on cupy " in done.stdout
        return
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert any(words in done.stderr for _, words in MISSING.values())


# Out of memory


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("Out of memory allocating 1,024 bytes"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
        RuntimeError("cudaErrorMemoryAllocation: out of memory"),
    ],
)
def test_a_gpu_that_is_too_small_is_said(monkeypatch, tmp_path, capsys, error):
    def full(*arguments, **options):
        raise error

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setattr("minitransformer.training.trainer.training_step", full)
    sizes = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--train-pairs", "50"]
    command = ["train", "copy", *sizes, "--held-out", "5", "--out", str(tmp_path / "run"), "--backend", "cupy"]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert all(words in err for words in ("GPU", "--batch-tokens", "--recompute", f"{type(error).__name__}: {error}"))
    assert "Traceback" not in err


def test_another_error_of_the_gpu_is_not_hidden(monkeypatch, tmp_path):
    def broken(*arguments, **options):
        raise RuntimeError("cudaErrorIllegalAddress")

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setattr("minitransformer.training.trainer.training_step", broken)
    command = ["train", "copy", "--train-pairs", "50", "--held-out", "5", "--backend", "cupy", "--out"]
    with pytest.raises(RuntimeError, match="IllegalAddress"):
        main([*command, str(tmp_path / "r")])


def test_each_process_takes_a_gpu_before_the_library_is_chosen(monkeypatch):
    calls = []

    def use(name):
        calls.append(name)
        raise arrays.BackendError("nothing more to see")

    group = SimpleNamespace(size=4, rank=3, local_rank=1)
    monkeypatch.setattr("minitransformer.apps.cli.processes.start", lambda name: group)
    monkeypatch.setattr("minitransformer.apps.cli.processes.choose_device", calls.append)
    monkeypatch.setattr("minitransformer.apps.cli.running.end_all", lambda *_: None)
    monkeypatch.setattr("minitransformer.apps.cli.running.use", use)
    assert main(["train", "copy", "--backend", "cupy"]) == 2
    assert calls == [1, "cupy"]
