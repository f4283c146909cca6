"""Training: reproducible, stopped when it diverges, and able to learn."""

import signal
from itertools import count

import numpy as np
import pytest

from minitransformer.arrays import to_numpy
from minitransformer.decoding import Diverged, translate
from minitransformer.gradients.blocks import add_gradient_in_blocks
from minitransformer.optim import inverse_square_root, linear_decay, warmup
from minitransformer.runs import Configuration, RunFolder, load
from minitransformer.runs.checkpoints import read_checkpoint
from minitransformer.tasks import build
from minitransformer.training import (
    Scores,
    Trainer,
    create_run,
    training_step,
)
from minitransformer.training.interruption import deferred_interrupt
from minitransformer.training.scores import Quality
from minitransformer.training.trainer import Best

SMALL = {
    "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 24, "steps": 6, "warmup_steps": 4, "batch_tokens": 64,
    "train_pairs": 100, "held_out": 8, "evaluate_every": 3, "average_last": 1,
}  # fmt: skip


def trained(tmp_path, name="run", task="reverse", **changes):
    configuration = Configuration.of_task(build(task), **(SMALL | changes))
    trainer = Trainer(configuration)
    folder = create_run(tmp_path / name, trainer.configuration, trainer.corpus)
    losses, scores = [], []

    def on_step(loss, rate, speed):
        if loss is not None:  # on a GPU not every one is read
            losses.append(loss)

    trainer.train(folder, on_step, scores.append)
    return trainer, folder, losses, scores


@pytest.fixture
def around_steps(monkeypatch):
    """Call functions before and after each step, with its number; the second gets the loss and returns one."""

    def call(before=lambda *_: None, after=lambda n, loss, *_: loss):
        numbers = count(1)

        def step(*given, **options):
            n = next(numbers)
            before(n, *given)
            return after(n, training_step(*given, **options), *given)

        monkeypatch.setattr("minitransformer.training.trainer.training_step", step)

    return call


@pytest.mark.parametrize(
    ("schedule", "course"),
    [
        ("warmup", lambda step: 0.7 * warmup(step, 16, 4)),
        ("inverse_sqrt", lambda step: inverse_square_root(step, 0.02, 4)),
        ("linear", lambda step: linear_decay(step, 0.02, 4, 6)),
    ],
)
def test_each_step_has_the_rate_that_its_schedule_says(tmp_path, schedule, course):
    changes = {"schedule": schedule, "peak": 0.02, "learning_rate_factor": 0.7}
    configuration = Configuration.of_task(build("reverse"), **SMALL, **changes)
    trainer, rates = Trainer(configuration), []
    folder = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)
    trainer.train(folder, lambda loss, rate, speed: rates.append(rate), lambda scores: None)
    assert rates == [course(step) for step in range(1, 7)]


@pytest.mark.same_bits
def test_training_is_reproducible_from_the_seed(tmp_path):
    first, _, losses, _ = trained(tmp_path, "first")
    second, _, again, _ = trained(tmp_path, "second")
    other, _, otherwise, _ = trained(tmp_path, "third", seed=1)
    assert losses == again
    assert losses != otherwise
    for name, values in first.model.state_dict().items():
        np.testing.assert_array_equal(values, second.model.state_dict()[name])
    assert first.corpus.held_out == second.corpus.held_out != other.corpus.held_out


def test_the_model_is_the_mean_of_the_last_steps_weights(tmp_path, around_steps):
    weights = []
    around_steps(after=lambda n, loss, model, *_: weights.append(model.state_dict()) or loss)
    _, folder, _, _ = trained(tmp_path, average_last=4)
    checkpoint = folder.checkpoints.load()
    for name, found in load(folder).model.state_dict().items():
        mean = np.mean([step[name].astype(np.float64) for step in weights[-4:]], axis=0)
        np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(found, checkpoint.mean[name])
        np.testing.assert_array_equal(checkpoint.model[name], weights[-1][name])


def test_a_run_can_be_read_back_and_translates_alike(tmp_path, monkeypatch):
    trainer, folder, _, scores = trained(tmp_path)
    monkeypatch.chdir(folder.path)
    again = load(".", "last")
    for name, values in trainer.model.state_dict().items():
        np.testing.assert_array_equal(values, again.model.state_dict()[name])
    texts = [source for source, _ in trainer.corpus.held_out]
    found = translate(again.model, again.source, again.target, texts)
    assert found == [sample.found for sample in scores[-1].samples]
    assert again.checkpoint.state["step"] == 6
    assert read_checkpoint(again.checkpoint.path).optimiser["step_count"] == 6


def test_measurements_are_logged(tmp_path):
    _, folder, _, scores = trained(tmp_path)
    *evaluations, final = [line for line in folder.measurements.read() if "exact_match" in line]
    training = [line for line in folder.measurements.read() if "loss" in line]
    assert [line["step"] for line in evaluations] == [3, 6]
    assert [line["exact_match"] for line in evaluations] == [score.exact_match for score in scores]
    assert training[-1]["step"] == 6
    assert (final["final"], final["step"]) == (True, 6)
    assert all(line["tokens_per_second"] > 0 for line in training)


def test_a_run_that_is_trained_from_python_is_finished(tmp_path):
    seen = []
    trainer, folder = begun(tmp_path)

    def on_result(result):
        seen.append(result)
        assert not folder.is_finished()  # what is drawn now is there when the run counts as finished

    result = trainer.train(folder, on_result=on_result)
    assert folder.is_finished()
    assert seen == [result]
    final = folder.measurements.read()[-1]
    assert final == result.measurement == folder.measurements.final()
    assert (final["step"], final["exact_match"]) == (6, result.scores.exact_match)
    assert [sample.source for sample in result.scores.samples] == [source for source, _ in folder.held_out()]
    for name, values in load(folder).model.state_dict().items():
        np.testing.assert_array_equal(result.trained.model.state_dict()[name], values)


def begun(tmp_path, **changes):
    trainer = Trainer(Configuration.of_task(build("reverse"), **(SMALL | changes)))
    folder = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)
    return trainer, folder


def test_it_learns(tmp_path):
    _, _, losses, scores = trained(
        tmp_path, task="copy", steps=300, warmup_steps=40, evaluate_every=300, dropout=0, batch_tokens=256
    )
    # Guessing among ten digits and the end costs about 2.4 nats.
    assert np.mean(losses[-10:]) < 1
    assert scores[-1].token_accuracy > 0.5


def test_a_loss_that_is_not_a_number_stops_training_and_keeps_the_checkpoint_before(tmp_path, around_steps):
    def poison(n, model, *_):
        if n == 5:
            model.output.data[...] = np.nan

    around_steps(poison)
    with pytest.raises(Diverged, match="the loss is nan at step 5"):
        trained(tmp_path)
    checkpoint = RunFolder(tmp_path / "run").checkpoints.load()
    assert checkpoint.state["step"] == 3
    assert all(np.isfinite(values).all() for values in checkpoint.model.values())


def test_losses_that_are_read_late_are_checked_before_anything_is_saved(tmp_path, monkeypatch, around_steps):
    """As on a GPU: with a loss that was NaN at step 2, no later checkpoint is written, though none of it was shown."""
    steps = []
    around_steps(lambda n, *_: steps.append(n), lambda n, loss, *_: loss * np.nan if n == 2 else loss)
    monkeypatch.setattr("minitransformer.training.trainer.backend", lambda: "cupy")
    with pytest.raises(Diverged, match="the loss is nan at step 2"):
        trained(tmp_path, evaluate_every=5, save_every=4)
    assert len(steps) == 4
    assert RunFolder(tmp_path / "run").checkpoints.load().state["step"] == 0


@pytest.mark.same_bits
def test_the_losses_of_a_run_are_the_same_however_late_they_are_read(tmp_path, monkeypatch):
    def logged(name):
        _, folder, losses, _ = trained(tmp_path, name, steps=25, evaluate_every=25)
        return [line["loss"] for line in folder.measurements.read() if "loss" in line], losses

    at_once, every = logged("at once")
    monkeypatch.setattr("minitransformer.training.trainer.backend", lambda: "cupy")
    late, some = logged("late")
    assert late == at_once
    assert some == (every if len(every) == 3 else [every[i] for i in (9, 19, 24)])


@pytest.mark.parametrize("name", ["weight", "mean squared gradient"])
def test_a_weight_that_is_not_a_number_is_never_saved(tmp_path, around_steps, name):
    def poison(n, loss, model, optimiser, *_):
        if n == 6:
            (model.output.data if name == "weight" else optimiser.mean_square)[:1] = np.inf
        return loss

    around_steps(after=poison)
    with np.errstate(all="ignore"), pytest.raises(Diverged, match=f"a {name} is not a finite number after step 6"):
        trained(tmp_path)
    assert RunFolder(tmp_path / "run").checkpoints.load().state["step"] == 3


@pytest.fixture
def _ctrl_c():
    """Ctrl-C works, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("step", [4, 5])
def test_a_second_ctrl_c_saves_no_weights_that_are_half_moved(tmp_path, around_steps, step):
    at_3 = []

    def interrupt(n, model, *_):
        if n == 4:
            at_3.append(model.state_dict())
        if n == step:
            signal.raise_signal(signal.SIGINT)

    around_steps(interrupt, lambda n, loss, *_: (signal.raise_signal(signal.SIGINT) if n == step else None) or loss)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path)
    checkpoint = RunFolder(tmp_path / "run").checkpoints.load()
    assert checkpoint.state["step"] == 3
    for name, values in checkpoint.model.items():
        np.testing.assert_array_equal(values, to_numpy(at_3[0][name]), err_msg=name)


def test_what_the_recipe_says_of_a_step_reaches_it(tmp_path, monkeypatch):
    asked = []

    def step(model, optimiser, batches, rate, smoothing, **options):
        asked.append((len(batches), smoothing, options["clip"], options["micro_batches"], options["loss_block"]))
        return training_step(model, optimiser, batches, rate, smoothing, **options)

    monkeypatch.setattr("minitransformer.training.trainer.training_step", step)
    trained(tmp_path, steps=4, label_smoothing=0.3, clip=0.7, accumulate=2, micro_batches=3, loss_block=5)
    assert asked == [(2, 0.3, 0.7, 3, 5)] * 4


def test_what_the_recipe_says_of_the_model_reaches_it():
    def model_of(**changes):
        configuration = Configuration.of_task(build("reverse"), **SMALL | changes)
        return configuration.build_model(11, 13, False)

    options = model_of(d_k=3, d_v=5).options
    assert (options.key_size, options.value_size) == (3, 5)
    first, same, other = (to_numpy(model_of(seed=seed).output.data) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_target_tokens_are_counted(tmp_path):
    trainer, *_ = trained(tmp_path, task="dates", steps=4, accumulate=2)
    batches = [batch for epoch in range(8) for batch in trainer.batches.epoch(epoch, 0)][:8]
    targets, sources = (sum(int((ids != 0).sum()) for ids in side) for side in list(zip(*batches, strict=True))[::-2])
    assert targets != sources
    assert trainer.tokens == targets


def scripted(monkeypatch, best_by, values):
    """Let each measurement find the next of some values, and say what was measured."""
    measured, evaluated = [], Trainer.evaluate

    def evaluate(self, pairs, model=None):
        if model:  # at the end of a run
            return evaluated(self, pairs, model)
        measured.append(pairs)
        value = values[self.step - 1]
        loss = -value if best_by == "loss" else 1.0
        bleu = Quality(value if best_by == "bleu" else 0.0, "", "")
        return Scores(value if best_by == "exact_match" else 0.0, 0.5, loss, [], bleu=bleu)

    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    return measured


ENDS = {"steps": 9, "warmup_steps": 2, "evaluate_every": 1, "patience": 2, "valid_pairs": 7}
VALUES = [0.2, 0.1, 0.5, 0.5, 0.3, 0.9, 0.9, 0.9, 0.9]  # of equally good ones the first is the best


@pytest.mark.parametrize("best_by", ["loss", "exact_match", "bleu"])
def test_the_best_is_the_best_and_patience_counts_from_it(tmp_path, monkeypatch, best_by):
    text = tmp_path / "text.tsv"
    text.write_text("".join(f"{n} a\t{n} b\n" for n in range(300)))
    kind = {"task": "text", "source": str(text), "source_tokens": "words", "target_tokens": "words", "min_count": 1}
    measured = scripted(monkeypatch, best_by, VALUES)
    trainer, folder, _, _ = trained(tmp_path, **kind, **ENDS, best_by=best_by)
    assert (trainer.step, trainer.stopped_early, trainer.best) == (5, True, Best(0.5, 3))
    best = read_checkpoint(folder.best_path)
    assert best.state["step"] == 3
    assert measured == [trainer.corpus.valid] * 5
    assert len(trainer.corpus.valid) == 7 < len(trainer.corpus.held_out)


def test_the_weight_decay_of_the_recipe_shrinks_the_matrices(tmp_path):
    (plain, *_), (other, *_) = (trained(tmp_path, f"{x}", steps=1, weight_decay=x) for x in (0.0, 2.0))
    rate = plain.configuration.learning_rate(1)
    start = Trainer(plain.configuration).model
    for without, decayed, before in zip(*(m.parameters() for m in (plain.model, other.model, start)), strict=True):
        share = 2.0 * rate if before.ndim > 1 else 0.0
        lost = to_numpy(without.data).astype(float) - to_numpy(decayed.data)
        # the weights, of which none is above 4, are rounded to 24 binary digits
        np.testing.assert_allclose(lost, share * to_numpy(before.data), rtol=0, atol=4 * 2**-23)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("sent", [(), (signal.SIGINT,), (signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM)])
def test_a_signal_does_afterwards_what_it_did_before(sent):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with deferred_interrupt() as pressed:
        assert [signal.raise_signal(number) or pressed() for number in sent] == [True] * len(sent)
        assert pressed() == bool(sent)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_saves_memory_is_done_as_the_recipe_says(tmp_path, monkeypatch):
    """What it computes is compared where a run is edited, see test_strict_readers.py."""
    sizes = []

    def watched(*given):
        sizes.append(given[2])
        return add_gradient_in_blocks(*given)

    monkeypatch.setattr("minitransformer.train.add_gradient_in_blocks", watched)
    trainer, *_ = trained(tmp_path, steps=2, recompute=True, attention_block=2, loss_block=3)
    assert (trainer.model.options.recompute, trainer.model.options.attention_block) == (True, 2)
    assert set(sizes) == {3}
