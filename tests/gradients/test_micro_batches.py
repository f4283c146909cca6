"""Data parallelism: a batch that is cut into micro-batches has the loss and the gradient of the whole batch."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.arrays import blas, to_numpy
from minitransformer.data import PAD, Batch
from minitransformer.gradients import check_workers, default_processes
from minitransformer.nn import Transformer
from minitransformer.optim import Adam
from minitransformer.runs import Configuration
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    create_run,
    default_micro_batches,
    resume,
    training_step,
)

from .steps import gradient_of

SMALL = {
    **{"d_model": 4, "n_heads": 1, "n_layers": 1, "d_ff": 4, "steps": 2, "warmup_steps": 1, "workers": 1},
    **{"batch_tokens": 64, "train_pairs": 20, "held_out": 2, "evaluate_every": 2, "average_last": 1},
}
CORES = pytest.mark.numpy_only("processes share the cores of a CPU")


def model_of(dropout=0.3, dtype="float64", seed=1):
    return Transformer(11, 13, d_model=8, n_heads=2, n_layers=2, d_ff=10, dropout=dropout, dtype=dtype, seed=seed)


def batch_of(n, seed=0):
    """Sentences of different lengths, one of them without any target token that counts."""
    rng = np.random.default_rng(seed)
    source, target_input, target_output = (rng.integers(1, 11, (n, length)) for length in (6, 5, 5))
    for row in range(n):
        source[row, rng.integers(1, 7) :] = PAD
        length = rng.integers(1, 6) if row != 2 else 0
        target_input[row, max(length, 1) :] = PAD
        target_output[row, length:] = PAD
    return Batch(source, target_input, target_output)


class OwnBatch:
    """A batch of somebody's own class."""

    def __init__(self, batch):
        self.inputs, self.target_output = batch.inputs, batch.target_output


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_a_step_is_that_of_a_loop_of_ones_own(label_smoothing):
    found = []
    for kind in ("own", "training_step", "own class", "list"):
        model, losses = model_of(0.0), []
        optimiser = Adam(model.parameters())
        for seed in range(3):
            batch = batch_of(4, seed)
            if kind == "own":
                optimiser.zero_grad()
                logits = model(batch.source, batch.target_input)
                loss = ops.cross_entropy(logits, batch.target_output, label_smoothing, PAD)
                loss.backward()
                optimiser.step(0.01)
            else:
                given = {"training_step": batch, "own class": OwnBatch(batch), "list": iter([batch])}[kind]
                loss = training_step(model, optimiser, given, 0.01, label_smoothing)
            losses.append(float(loss.item()))
        found.append((losses, to_numpy(optimiser.values).tolist()))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("number", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("sizes", [[7], [7, 2, 5]])
def test_micro_batches_agree_with_one(number, dropout, sizes):
    """Of nine micro-batches of seven sentences some are empty."""
    batches = [batch_of(n, seed) for seed, n in enumerate(sizes)]
    one, several = model_of(dropout), model_of(dropout)
    loss, expected = gradient_of(one, batches)
    found_loss, found = gradient_of(several, batches, micro_batches=number)
    assert found_loss == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert several.rng.bit_generator.state == one.rng.bit_generator.state  # the next step's dropout is the same too


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_step_drops_out_entries_in_training_mode_only(micro_batches):
    model = model_of().eval()
    before = model.rng.bit_generator.state
    assert (
        gradient_of(model, batch_of(6), micro_batches=micro_batches)[0]
        == gradient_of(model, batch_of(6), micro_batches=micro_batches)[0]
    )
    assert model.rng.bit_generator.state == before
    without = gradient_of(model_of(0.0), batch_of(6), micro_batches=micro_batches)[0]
    assert gradient_of(model, batch_of(6), micro_batches=micro_batches)[0] == without
    assert gradient_of(model.train(), batch_of(6), micro_batches=micro_batches)[0] != without
    assert model.rng.bit_generator.state != before


@pytest.mark.parametrize("block", [None, 2])
def test_training_has_dropout_and_evaluation_has_none(monkeypatch, tmp_path, block):
    seen = []

    def step(model, *given, **options):
        seen.append(model.training)
        return training_step(model, *given, **options)

    monkeypatch.setattr("minitransformer.training.trainer.training_step", step)
    trainer = Trainer(Configuration.of_task(build("copy"), **SMALL, loss_block=block))
    before = trainer.model.rng.bit_generator.state
    measured, evaluate = [], trainer.evaluate
    trainer.evaluate = lambda *given: measured.append(trainer.model.training) or evaluate(*given)
    run = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)
    trainer.train(run)
    assert seen == [True, True]
    assert measured == [False, False]
    assert trainer.model.rng.bit_generator.state != before


def test_a_mistake_in_a_share_is_raised_and_the_next_batch_works():
    model = model_of()
    good, bad = batch_of(6), batch_of(6)
    bad.source[5, 0] = 99
    state = model.rng.bit_generator.state
    before = gradient_of(model, good, micro_batches=3)[0]
    model.rng.bit_generator.state = state
    with pytest.raises(IndexError, match="id 99 is out of range"):
        gradient_of(model, bad, micro_batches=3)
    assert (model.rng.before, model.rng.after, model.rng.bit_generator.state) == (0, 0, state)
    assert gradient_of(model, good, micro_batches=3)[0] == before


@CORES
def test_a_run_keeps_its_number_of_threads_wherever_it_goes_on(tmp_path):
    """Sums are rounded differently on another number of threads, so a resumed run would end with other weights."""
    configuration = Configuration.of_task(build("copy"), **SMALL)
    found = []
    with blas.threads(3):
        trainer = Trainer(configuration)
        run = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)
    with blas.threads(1):
        resume(run, print).train(run, lambda *_: found.append(blas.default_threads(1)))
        assert blas.default_threads(1) == 1
    assert found == [3, 3]


@CORES
def test_threads_of_products_are_left_as_they_were(tmp_path):
    def threads():
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    trainer = Trainer(Configuration.of_task(build("copy"), **SMALL, blas_threads=1))
    run = create_run(tmp_path / "run", trainer.configuration, trainer.corpus)

    def stop(*_):
        assert threads() == {1}
        raise ZeroDivisionError

    with blas.threads(2):
        with pytest.raises(ZeroDivisionError):
            trainer.train(run, stop)
        assert threads() == {2}


@CORES
@cases_from_toml
def test_processes_are_those_asked_for_or_one_for_each_core(monkeypatch, library, micro_batches, workers, expected):
    monkeypatch.setattr(blas, "cores", lambda: 4)
    monkeypatch.setattr("minitransformer.gradients.micro_batches.backend", lambda: library)
    assert default_processes(micro_batches, workers) == expected


@CORES
def test_by_default_each_core_has_a_share_if_it_has_enough_to_do(monkeypatch):
    monkeypatch.setattr(blas, "cores", lambda: 8)
    assert [default_micro_batches(n) for n in (1, 300, 512, 1100, 10**6)] == [1, 1, 2, 4, 8]
    monkeypatch.setattr("minitransformer.gradients.micro_batches.backend", lambda: "cupy")
    assert default_micro_batches(10**6) == 1
    with pytest.raises(ValueError, match="workers must be 1 with cupy, found 2"):
        check_workers(2)
