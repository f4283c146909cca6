"""How long to train: in steps, epochs or minutes; the time that it takes is expected and measured."""

import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.arrays import backend
from minitransformer.nn import Transformer
from minitransformer.options import OptionError
from minitransformer.runs import Configuration, RunFolder
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    create_run,
    length,
    resume,
)

SMALL = {
    "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "workers": 1, "batch_tokens": 128, "train_pairs": 100,
    "held_out": 5, "save_every": 3,
}  # fmt: skip


def configuration(**changes):
    return Configuration.of_task(build("reverse"), **(SMALL | changes))


@pytest.fixture
def a_step_takes(monkeypatch):
    def take(seconds):
        monkeypatch.setattr(length, "measure_step", lambda *_: seconds)

    return take


def test_epochs_become_steps_and_the_schedule_fits_them():
    own = configuration().training
    trainer = Trainer(configuration(epochs=3))
    found, per_epoch = trainer.configuration.training, trainer.batches.batches_per_epoch
    assert found.steps == 3 * per_epoch
    assert (found.length, found.epochs) == ("steps", None)
    for scaled in (found, *(configuration().with_steps(steps).training for steps in range(1, 2000, 90))):
        for name in ("warmup_steps", "average_last", "evaluate_every"):
            assert getattr(scaled, name) == max(1, round(getattr(own, name) * scaled.steps / own.steps))
        assert scaled.save_every == 3  # it was picked
    for epochs, n in product((1, 1.3, 1.45, 1.6, 2.5, 3), (1, 2, 3)):
        steps = Trainer(configuration(epochs=epochs, accumulate=n)).configuration.training.steps
        assert abs(steps - epochs * per_epoch / n) <= 0.5
    assert Trainer(configuration(epochs=1e-6, warmup_steps=1)).configuration.training.steps == 1


def test_minutes_become_steps_once(a_step_takes, tmp_path):
    """What a step takes is measured before the run is made; whoever resumes it measures nothing."""
    a_step_takes(0.9 * 60 * 0.01 / 7.6)
    trainer = Trainer(configuration(minutes=0.01))
    found = trainer.configuration
    assert (found.training.steps, found.training.minutes) == (7, None)
    assert trainer.expected_seconds() == pytest.approx(0.54 * 7 / 7.6)
    run = create_run(tmp_path / "run", found, trainer.corpus)
    assert json.loads((run.path / "configuration.json").read_text())["steps"] == 7
    a_step_takes(1e9)
    assert resume(run, print).configuration.training.steps == 7


def test_trial_steps_leave_no_trace(monkeypatch):
    monkeypatch.setattr(length, "SECONDS", 0.0)
    found = Trainer(configuration(minutes=0.01))
    assert found.configuration.training.steps >= 1
    wanted = Trainer(configuration(steps=5))
    for name, values in found.model.state_dict().items():
        np.testing.assert_array_equal(values, wanted.model.state_dict()[name])
    assert found.model.rng.bit_generator.state == wanted.model.rng.bit_generator.state


def test_trial_steps_are_steps_of_the_training(monkeypatch):
    """With the same batches, smoothing, clipping and weight decay."""
    seen = []

    def step(model, optimiser, batches, rate, smoothing, *, clip, micro_batches, loss_block, group):
        assert model.training
        seen.append((optimiser.weight_decay, len(batches), smoothing, micro_batches, clip, loss_block))
        return 0.0

    monkeypatch.setattr(length, "training_step", step)
    monkeypatch.setattr(length, "SECONDS", -1)
    own = {
        "weight_decay": 0.2,
        "accumulate": 3,
        "label_smoothing": 0.3,
        "micro_batches": 2,
        "clip": 0.7,
        "loss_block": 9,
    }
    Trainer(configuration(minutes=0.01, workers=1, **own))
    assert seen == [tuple(own.values())] * (length.UNTIMED + length.FEWEST)


@cases_from_toml
def test_one_length_is_given_and_it_is_possible(lengths, words):
    with pytest.raises(OptionError, match=words) as error:
        configuration(**lengths)
    assert set(error.value.names) <= lengths.keys()


def test_a_warm_up_that_was_picked_is_not_cut():
    with pytest.raises(OptionError, match="warmup_steps must be at most steps with the linear schedule, found 50 and"):
        Trainer(configuration(epochs=1, schedule="linear", warmup_steps=50))


def test_a_default_makes_room_for_what_was_given():
    for given, name, suits in (
        ({"steps": 60}, "warmup_steps", 2),
        ({"steps": 60, "warmup_steps": 9}, "warmup_steps", 9),
        ({"window": 3000}, "batch_tokens", 3000),
        ({"batch_tokens": 64}, "window", 64),
    ):
        assert Configuration.of_task(build("characters"), **given).flat()[name] == suits


def test_none_leaves_an_option_open():
    assert configuration(warmup_steps=None, peak=None).free == configuration().free != configuration(peak=1.0).free


def test_the_time_to_come_is_guessed_and_then_measured(tmp_path):
    trainer = Trainer(configuration(steps=6))
    guess = trainer.expected_seconds()
    assert 0 < guess < 60 if backend() == "numpy" else guess is None
    run, seen = RunFolder(tmp_path / "run"), []
    create_run(run.path, trainer.configuration, trainer.corpus)
    trainer.train(run, lambda *_: seen.append((trainer.step, trainer.seconds, trainer.expected_seconds())))
    for step, seconds, expected in seen:
        assert expected == pytest.approx((6 - step) * seconds / step)
    again, seen = Trainer(configuration(steps=9)), []
    checkpoint = trainer.checkpoint()
    again.restore(checkpoint._replace(state=checkpoint.state | {"seconds": 1e6}))  # on a slower machine
    create_run(run.path, again.configuration, again.corpus, overwrite=True)
    again.train(run, lambda *_: seen.append((again.step, again.seconds, again.expected_seconds())))
    for step, seconds, expected in seen:
        assert expected == pytest.approx((9 - step) * (seconds - 1e6) / (step - 6))


@pytest.mark.skipif(backend() != "numpy", reason="there is no guess on a GPU")
def test_a_guess_counts_all_weights_and_tokens_at_the_speed_of_the_fastest_product(monkeypatch):
    turns = np.cumsum([0, 5, 1, 2, *[1, 3] * (length.TIMES - 2)]).astype(float)
    monkeypatch.setattr(length, "time", SimpleNamespace(perf_counter=iter(turns).__next__))
    monkeypatch.setattr(length.blas, "cores", lambda: 5)
    model = Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    operations = 6 * sum(int(np.prod(p.shape)) for p in model.parameters()) * 11
    expected = 2 * operations / (2 * length.SIDE**3 * length.EFFICIENCY * 5)
    assert length.guess_seconds(model, 11) == pytest.approx(expected, rel=1e-12)
