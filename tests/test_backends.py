"""NumPy and CuPy side by side: the same training, and runs that go from one to the other.

CuPy is the real one where the tests run on it, else fake CuPy.
"""

import json
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from fake_cupy import log
from fake_cupy.library import cupy as fake_cupy
from small_models import padded_batch

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.arrays import backend, use
from minitransformer.decoding import translate
from minitransformer.runs import Configuration, RunFolder, load
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    create_run,
    resume,
    training_step,
)

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
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
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


def model_of(dropout=0.0, **options):
    return mt.nn.Transformer(11, 11, d_model=16, n_heads=2, n_layers=2, d_ff=24, dropout=dropout, seed=3, **options)


# The same training


@pytest.mark.parametrize(
    ("options", "clip"), [*((options, None) for options in OPTIONS), ({}, 0.5), ({"dropout": 0.2}, None)]
)
def test_losses_of_ten_steps_agree_to_rounding(options, clip):
    found = []
    for library in LIBRARIES:
        with on(library):
            model = model_of(**options)
            optimiser = mt.optim.Adam(model.parameters())
            losses = [training_step(model, optimiser, padded_batch(n % 3), 0.004, 0.1, clip=clip) for n in range(10)]
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
def test_a_run_is_used_with_the_other_library(tmp_path, capsys, here, there):
    found, said, ids = [], [], np.array([[4, 3, 5, 2]])
    with on(here):
        path = str(trained(tmp_path / "run", steps=12, average_last=3).path)
    for library in (here, there):
        with on(library):
            model, _, source, target, *_ = load(RunFolder(path))
            texts = [text for text, _ in RunFolder(path).held_out()]
            said.append([translate(model, source, target, texts, beam) for beam in (1, 3)])
            maps = {f"{kind} {i}": x for kind, xs in model.attention_maps(ids, ids).items() for i, x in enumerate(xs)}
            found.append((model.state_dict(), maps))
        for command in (["evaluate", path], ["translate", path, texts[0]]):
            capsys.readouterr()
            assert main([*command, "--backend", library]) == 0
            said[-1].append(capsys.readouterr().out)
    assert said[0] == said[1]
    (weights, maps), (others, other_maps) = found
    for name, values in weights.items():
        np.testing.assert_array_equal(others[name], values, err_msg=name)
    for name, values in maps.items():
        assert type(values) is type(other_maps[name]) is np.ndarray
        np.testing.assert_allclose(other_maps[name], values, rtol=1e-4, atol=1e-6, err_msg=name)


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
    assert len(notes) == 1
    assert "2 workers" in notes[0]
    assert json.loads((run.path / "configuration.json").read_text())["workers"] == 2


def test_several_workers_are_refused_on_a_gpu_before_anything_is_written(tmp_path, capsys):
    path = tmp_path / "run"
    assert main(["train", "copy", "--workers", "2", "--out", str(path), "--backend", "cupy"]) == 2
    assert "workers must be 1 with cupy, found 2" in capsys.readouterr().err
    assert not path.exists()


# What waits for the device; only fake CuPy counts it


@pytest.mark.parametrize(("clip", "accumulate"), [(None, 1), (0.5, 2)])
def test_between_losses_that_are_shown_nothing_is_read_back(tmp_path, monkeypatch, clip, accumulate):
    if sys.modules["cupy"] is not fake_cupy:
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
