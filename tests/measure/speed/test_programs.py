"""The processes themselves, at tiny sizes."""

import importlib.util
import mmap
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.apps.measure.machine import machine_memory, peak_memory, peak_share, resident_memory
from minitransformer.apps.measure.speed import growth, program, scaling
from minitransformer.apps.measure.speed.growth import Axis, Curve, measure_growth
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.turns import Process, ProcessError
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.data import MissingExtraError
from minitransformer.parallel import forked
from minitransformer.parallel.shared_memory import can_fork

pytestmark = pytest.mark.numpy_only("measures the processor, in processes that choose their library themselves")

TINY = Workload().changed(d_model=8, n_heads=2, n_layers=1, d_ff=12, vocabulary=11, batch=4, length=5)


@pytest.mark.parametrize(("name", "workers"), [("ours", 2), ("growth", None), ("anatomy", 1), ("ours-greedy", 1),
                                                ("ours-beam", 1)])  # fmt: skip
def test_each_program_does_as_many_steps_as_it_is_asked(name, workers):
    told = {"program": name, "workload": TINY.flat(), "workers": workers, "backend": "numpy"}
    with program.prepare(told) as (turn, description):
        assert len(turn(3)["seconds"]) == 3
    assert description.get("workers") == workers
    assert ("sentences" in description) == ("ours-" in name)
    assert ("resident" in description) == (name == "growth")
    assert ("products" in description) == (name == "anatomy")


def test_a_program_that_cannot_run_says_why():
    *start, told = command("ours", TINY)
    impossible = [*start, told.replace('"d_model": 8', '"d_model": 9')]
    with Process(impossible) as process, pytest.raises(ProcessError, match=r"OptionError.*9 is not divisible"):
        process.read()


def test_without_pytorch_the_reason_is_said():
    if importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is installed")
    with Process(command("eager", TINY)) as process, pytest.raises(ProcessError, match="PyTorch is not installed"):
        process.read()


def test_memory_is_in_bytes():
    peak, now, all_of_it = peak_memory(), resident_memory(), machine_memory()
    if None in (peak, now, all_of_it):
        pytest.skip("this system does not tell")
    assert 10**7 < peak < all_of_it
    assert 10**7 < now < all_of_it


def test_memory_of_processes_counts_what_they_share_once():
    """The part of each of two processes: an array that both hold counts half in each, one of its own counts whole."""
    if None in (peak_share(), resident_memory()) or not can_fork():
        pytest.skip("this system does not tell, or does not fork")
    shared, size = np.ones(2 * 10**7), 16 * 10**7
    with forked(2) as group:
        together = sum(group.all_gather(peak_share()))
        if group.rank:
            np.frombuffer(mmap.mmap(-1, size // 2, mmap.MAP_PRIVATE))[:] = 1  # freed at once; the peak remembers it
        more = sum(group.all_gather(peak_share())) - together
    assert shared.nbytes == size < together < peak_memory() + size // 2
    assert size // 2 * 0.9 < more < size // 2 * 1.2


def axis(values, **curve):
    return {"length": Axis("T", TINY, values, {"length": 1}, [Curve("plain", {}, 2, 2, **curve)])}


def test_growth_is_measured_point_by_point(monkeypatch):
    monkeypatch.setattr(growth, "ENOUGH", 0.01)
    result = measure_growth(lambda what: None, axis((3, 6)))
    (curve,) = result["axes"]["length"]["curves"]
    assert [point["value"] for point in curve["points"]] == [3, 6]
    assert all(point["seconds"] > 0 for point in curve["points"])
    assert isinstance(curve["time_slope"], float)
    assert curve["left_out"] is None


@pytest.mark.parametrize("beside", [True, False])
def test_several_processes_need_mpiexec_and_mpi4py(monkeypatch, tmp_path, beside):
    """The mpiexec beside Python comes first; Open MPI needs an option."""
    which = lambda name, path="elsewhere": str(tmp_path / path / name) if beside or path == "elsewhere" else None  # noqa: E731
    monkeypatch.setattr(scaling.shutil, "which", which)
    monkeypatch.setattr(scaling, "find_spec", {"mpi4py": "a package"}.get)
    monkeypatch.setattr(scaling.sys, "executable", str(tmp_path / "beside" / "python"))
    mpiexec = tmp_path / ("beside" if beside else "elsewhere") / "mpiexec"
    assert scaling.find_mpiexec() == [str(mpiexec)]
    mpiexec.parent.mkdir()
    (mpiexec.parent / "ompi_info").touch()
    assert scaling.find_mpiexec() == [str(mpiexec), "--oversubscribe"]
    for name, nothing in (("find_spec", lambda name: None), ("shutil", SimpleNamespace(which=lambda *_, **__: None))):
        with monkeypatch.context() as patch:
            patch.setattr(scaling, name, nothing)
            with pytest.raises(MissingExtraError):
                scaling.find_mpiexec()
