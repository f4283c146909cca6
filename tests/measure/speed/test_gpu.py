"""Measuring on a GPU, tried out without one: our side on fake CuPy, PyTorch's on the processor."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from fake_cupy import log
from fake_cupy.device import Device
from fake_cupy.library import cupy as fake_cupy
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.measure.speed import GPU_CONFIGURATIONS, Workload, gpu, program
from minitransformer.apps.measure.speed.account import Account
from minitransformer.apps.measure.speed.anatomy import ProcessShare
from minitransformer.apps.measure.speed.gpu import compare_with_rate
from minitransformer.arrays import use

pytestmark = pytest.mark.numpy_only("chooses the library itself")

TINY = Workload().changed(d_model=8, n_heads=2, n_layers=2, d_ff=12, vocabulary=11, batch=4, length=5)
HAS_TORCH = importlib.util.find_spec("torch") is not None

# A process of its own, in which fake CuPy is CuPy, PyTorch's GPU is the processor, and the large product is small.
CHILD = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from fake_cupy.library import cupy
sys.modules["cupy"] = cupy
from minitransformer.apps.measure.speed import gpu
from minitransformer.apps.measure.speed.program import main
gpu.SIDE, gpu.LONG_ENOUGH = 32, 1e-3
sys.exit(main([json.dumps(json.loads(sys.argv[1]) | {{"device": "cpu"}})]))
"""


@pytest.fixture
def fake_cupy_in_use(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setattr(gpu, "SIDE", 32)
    monkeypatch.setattr(gpu, "LONG_ENOUGH", 1e-3)
    use("cupy")
    yield
    use("numpy")


def test_the_products_of_a_step_are_those_that_a_step_does():
    for workload in (TINY, TINY.changed(n_layers=1, length=7, d_ff=20)):
        account = Account()
        ProcessShare(workload, 1).step(account)
        assert workload.flops == account.flops


@pytest.mark.usefixtures("fake_cupy_in_use")
def test_a_block_waits_before_and_after_and_reads_nothing_in_between():
    with gpu.prepare_ours(TINY) as (turn, description):
        assert description["gpu"]["name"] == "a fake GPU"
        assert description["gpu"]["cuda"] == "13.2"
        assert description["matmul"] > 0
        waits = Device.waits
        with log.host_copies() as copies:
            answer = turn(5)
        assert copies == ["float"]  # the last loss, after the block
        assert Device.waits == waits + 2
        (seconds,) = answer["seconds"]
        assert seconds > 0
        assert answer["peak"] == 123_000_000
        first = answer["loss"]
        assert turn(12)["loss"] < first  # it goes on, and it trains


@pytest.mark.usefixtures("fake_cupy_in_use")
def test_what_is_no_training_is_not_timed():
    with pytest.raises(ArithmeticError, match="the loss is nan after 2 steps"):
        gpu._block(lambda: float("nan"), lambda: None, 2)


def test_tf32_is_allowed_before_cupy_is_asked(monkeypatch):
    monkeypatch.setenv("CUPY_TF32", "0")
    asked = []
    monkeypatch.setattr(program, "use", lambda name: asked.append((name, gpu.os.environ["CUPY_TF32"])))
    program.prepare({"program": "ours", "workload": TINY.flat(), "workers": None, "backend": "cupy"})
    assert asked == [("cupy", "1")]


def test_the_share_of_the_cards_rate():
    programs = {
        "ours": {"median": 0.5, "description": {"matmul": 4e12}},
        "eager": {"median": 0.25, "description": {"matmul": 5e12}},
        "compiled": {"description": {}},
    }
    found = compare_with_rate(programs, TINY)
    assert found["matmul"] == 5e12
    assert found["share"] == {"ours": TINY.flops / 0.5 / 5e12, "eager": TINY.flops / 0.25 / 5e12}
    assert compare_with_rate({"ours": {"description": {}}}, TINY) == {
        "flops": TINY.flops, "matmul": None, "achieved": {}, "share": {},
    }  # fmt: skip


@pytest.mark.parametrize("side", ["alone", "beside PyTorch"])
def test_from_the_first_word_to_the_figures(monkeypatch, tmp_path, capsys, side):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setitem(GPU_CONFIGURATIONS, "base-64x64", TINY)
    monkeypatch.setattr("minitransformer.apps.measure.speed.turns.TURN", 0.01)
    real = program.command

    def command(*arguments):
        *_, told = real(*arguments)
        return [sys.executable, "-c", CHILD, told]

    monkeypatch.setattr(sys.modules["minitransformer.apps.measure.speed.steps"], "command", command)
    figures = tmp_path / "speed.json"
    arguments = ["--rounds", "2", "--json", str(figures), "--backend", "cupy"]
    arguments += ["--no-pytorch"] if side == "alone" else []
    try:
        assert main(["measure", "speed", "base-64x64", *arguments]) == 0
    finally:
        use("numpy")
    report = " ".join(capsys.readouterr().out.split())
    assert "base-64x64: D 8, H 2, N 2, F 12, V 11; 4 x 5 tokens" in report
    assert "a fake GPU, 8 GB" in report
    assert "CUDA 13.2, driver 13.0" in report
    assert "a wait for the GPU before and after" in report
    assert "one large one alone runs at" in report
    assert "the whole step of minitransformer reaches" in report
    assert "123 MB" in report
    found = json.loads(figures.read_text())["configurations"]["base-64x64"]
    ours = found["programs"]["ours"]
    assert ours["failed"] is None
    assert [len(seconds) for seconds in ours["seconds"]] == [1, 1]
    assert found["gpu"]["flops"] == TINY.flops
    if side == "alone":
        assert found["programs"].keys() == {"ours"}
    elif HAS_TORCH:
        assert "times_ours" in found["programs"]["eager"]
        assert "the whole step of PyTorch eager reaches" in report
    else:
        assert "PyTorch eager: not measured: PyTorch is not installed" in report


@cases_from_toml
@pytest.mark.usefixtures("fake_cupy_in_use")
def test_what_is_not_for_a_gpu_is_refused(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minitransformer.apps.measure.speed.measure_speed", pytest.fail)
    assert main(["measure", *arguments]) == 2
    assert message in capsys.readouterr().err
