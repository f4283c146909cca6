"""NumPy and CuPy side by side: the same training, and runs that go from one to the other.

CuPy is the real one where the tests run on it, else its double.
"""

import json
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from double import log
from double.library import cupy as double

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.arrays import backend, to_numpy, use
from minitransformer.data import Batch
from minitransformer.decoding import translate
from minitransformer.tasks import build
from minitransformer.training import Configuration, RunFolder, Trainer, create_run, load, resume, shared_step

SMALL = {
    "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 24, "warmup_steps": 10, "batch_tokens": 128, "dropout": 0.0,
    "train_pairs": 150, "held_out": 6, "evaluate_every": 100, "average_last": 1,
}  # fmt: skip
LIBRARIES = ("numpy", "cupy")
OPTIONS = [{}, {"norm": "pre", "positions": "learned"}, {"attention_block": 3, "recompute": True}]


@pytest.fixture(autouse=True)
def library_afterwards(monkeypatch):
    before = backend()
    if before == "numpy":
        monkeypatch.setitem(sys.modules, "cupy", double)
    yield
    use(before)


@contextmanager
def on(library):
    before = backend()
    use(library)
    try:
        yield
    finally:
        use(before)


def batch_of(seed=0, rows=8):
    rng = np.random.default_rng(seed)
    source, written, wanted = (rng.integers(1, 11, (rows, length)) for length in (7, 5, 5))
    source[1, 3:] = written[2, 4:] = wanted[2, 4:] = 0
    return Batch(source, written, wanted)


def model_of(dropout=0.0, **options):
    return mt.nn.Transformer(11, 11, d_model=16, n_heads=2, n_layers=2, d_ff=24, dropout=dropout, seed=3, **options)


# The same training


@pytest.mark.parametrize("options", OPTIONS)
def test_initial_weights_are_the_same(options):
    found = []
    for library in LIBRARIES:
        with on(library):
            found.append(model_of(**options).state_dict())
    for name, values in found[0].items():
        np.testing.assert_array_equal(found[1][name], values, err_msg=name)
        assert type(values) is type(found[1][name]) is np.ndarray


def test_data_and_its_order_are_the_same():
    found = []
    for library in LIBRARIES:
        with on(library):
            trainer = Trainer(Configuration.of_task(build("reverse"), **SMALL))
            found.append((trainer.corpus.fingerprint(), [list(trainer.batches.epoch(n)) for n in (0, 1)]))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        for a, b in zip(one, other, strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("options", "clip"), [*((options, None) for options in OPTIONS), ({}, 0.5), ({"dropout": 0.2}, None)]
)
def test_losses_of_ten_steps_agree_to_rounding(options, clip):
    found = []
    for library in LIBRARIES:
        with on(library):
            model = model_of(**options)
            optimiser = mt.optim.Adam(model.parameters())
            losses = [shared_step(model, optimiser, batch_of(n % 3), 0.004, 0.1, clip=clip) for n in range(10)]
            found.append([float(loss) for loss in losses])
    assert found[0][-1] < found[0][0] - 0.1  # it is a training
    np.testing.assert_allclose(found[1][:5], found[0][:5], rtol=3e-6)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


# From one to the other


def trained(folder, **changes):
    trainer = Trainer(Configuration.of_task(build("reverse"), **(SMALL | changes)))
    run = create_run(folder, trainer.configuration, trainer.corpus)
    trainer.train(run, lambda *_: None, lambda _: None)
    return run


@pytest.mark.parametrize(("here", "there"), [LIBRARIES, LIBRARIES[::-1]])
def test_a_run_is_used_with_the_other_library(tmp_path, capsys, monkeypatch, here, there):
    said, drawn = {}, []
    monkeypatch.setattr("minitransformer.apps.plots.attention_maps", lambda maps, *_, **__: drawn.append(maps))
    with on(here):
        trained(tmp_path / "run", steps=12, average_last=3)
    for library in (here, there):
        with on(library):
            model, _, source, target, *_ = load(RunFolder(tmp_path / "run"))
            texts = [text for text, _ in RunFolder(tmp_path / "run").held_out()]
            weights = model.state_dict()
            for beam in (1, 3):
                said[library, beam] = translate(model, source, target, texts, beam)
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / "run"), "--backend", library]) == 0
        said[library, "evaluate"] = capsys.readouterr().out
        assert main(["translate", str(tmp_path / "run"), texts[0], "--backend", library]) == 0
        said[library, "translate"] = capsys.readouterr().out
        assert main(["attention", str(tmp_path / "run"), texts[0], "--backend", library]) == 0
        capsys.readouterr()
        said[library, "weights"] = weights
    for name, values in said[here, "weights"].items():
        np.testing.assert_array_equal(said[there, "weights"][name], values)
    for what in (1, 3, "evaluate", "translate"):
        assert said[here, what] == said[there, what], what
    assert drawn[0].keys() == drawn[1].keys()
    for kind, layers in drawn[0].items():
        for one, other in zip(layers, drawn[1][kind], strict=True):
            assert type(one) is type(other) is np.ndarray
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6, err_msg=kind)


@pytest.mark.parametrize(("here", "there"), [LIBRARIES, LIBRARIES[::-1]])
def test_a_run_goes_on_with_the_other_library(tmp_path, here, there):
    """It ends, to rounding, where the first library would have brought it."""
    options = {"steps": 24, "save_every": 12, "evaluate_every": 12, "keep": 5, "average_last": 6, "clip": 0.5}
    options["dropout"] = 0.1  # every library drops the same entries
    with on(here):
        whole = trained(tmp_path / "whole", **options)
    shutil.copytree(whole.path, tmp_path / "half")
    half = RunFolder(tmp_path / "half")
    (half.checkpoints.path / "step-00000024.safetensors").unlink()
    half.measurements.cut(12)
    with on(there):
        trainer = resume(half, pytest.fail)
        assert trainer.step == 12
        trainer.train(half, lambda *_: None, lambda _: None)
    one, other = whole.checkpoints.load(), half.checkpoints.load()
    assert other.state["step"] == 24
    for part in ("model", "mean"):
        for name, values in getattr(one, part).items():
            np.testing.assert_allclose(getattr(other, part)[name], values, rtol=1e-3, atol=1e-4, err_msg=name)
    losses = [[line["loss"] for line in run.measurements.read() if "loss" in line] for run in (whole, half)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert one.state["dropout"] == other.state["dropout"]


def test_workers_of_a_cpu_are_one_on_a_gpu(tmp_path):
    with on("numpy"):
        run = trained(tmp_path / "run", steps=2, workers=2, save_every=1, keep=3)
    (run.checkpoints.path / "step-00000002.safetensors").unlink()
    notes = []
    with on("cupy"):
        trainer = resume(run, notes.append)
        assert trainer.step == 1
        trainer.train(run, lambda *_: None, lambda _: None)
    assert notes == ["the 2 workers of the run shared the cores of a CPU; on a GPU one worker continues"]
    assert json.loads((run.path / "configuration.json").read_text())["workers"] == 2


def test_several_workers_are_refused_on_a_gpu_before_anything_is_written(tmp_path, capsys):
    path = tmp_path / "run"
    assert main(["train", "copy", "--workers", "2", "--out", str(path), "--backend", "cupy"]) == 2
    words = "workers must be 1 with cupy, found 2: they are threads that share the cores of a CPU"
    assert words in capsys.readouterr().err
    assert not path.exists()


# What waits for the device; only the double counts it


@pytest.mark.parametrize(("clip", "accumulate"), [(None, 1), (0.5, 2)])
def test_between_losses_that_are_shown_nothing_is_read_back(tmp_path, monkeypatch, clip, accumulate):
    if sys.modules["cupy"] is not double:
        pytest.skip("a real CuPy does not count")
    changes = {"steps": 20, "dropout": 0.1, "clip": clip, "accumulate": accumulate, "evaluate_every": 10}
    copies, shown = {}, []
    with on("cupy"):
        trainer = Trainer(Configuration.of_task(build("reverse"), **(SMALL | changes)))
        run = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)
        measure, save, remember = trainer._measure, trainer._save, trainer._remember
        monkeypatch.setattr(trainer, "_measure", lambda *arguments: (measure(*arguments), log.clear()))
        monkeypatch.setattr(trainer, "_save", lambda *arguments: (save(*arguments), log.clear()))

        def remember_and_forget(folder):
            remember(folder)
            if trainer.step % 10 == 0:  # the weights are read there for the history
                log.clear()

        monkeypatch.setattr(trainer, "_remember", remember_and_forget)

        def on_step(loss, rate, speed):
            shown.append(loss)
            copies[trainer.step] = list(log.to_host)
            log.clear()

        trainer.train(run, on_step, lambda _: None)
    assert [step for step, loss in enumerate(shown, 1) if loss is not None] == [10, 20]
    assert copies == {step: [] if step % 10 else ["get"] for step in range(1, 21)}


@pytest.mark.parametrize("options", [{"clip": 0.5}, {"accumulated": 3}])
def test_a_step_of_any_kind_does_not_wait(options):
    if sys.modules["cupy"] is not double:
        pytest.skip("a real CuPy does not count")
    with on("cupy"):
        model = model_of(0.1)
        optimiser = mt.optim.Adam(model.parameters())
        batches = [batch_of(n) for n in range(options.pop("accumulated", 1))]
        with log.host_copies() as copies:
            for _ in range(3):
                loss = shared_step(model, optimiser, batches, 0.01, 0.1, **options)
        assert copies == []
        assert np.isfinite(to_numpy(loss))
