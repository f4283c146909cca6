"""Data parallelism: as many workers as one likes compute what one computes, whoever is done first."""

import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_info
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.arrays import blas, to_numpy
from minitransformer.data import PAD, Batch
from minitransformer.nn import Transformer
from minitransformer.optim import Adam
from minitransformer.tasks import build
from minitransformer.train import training_step
from minitransformer.training import Configuration, Trainer, Workers, create_run, default_workers, resume, shared_step

SMALL = {
    **{"d_model": 4, "n_heads": 1, "n_layers": 1, "d_ff": 4, "steps": 2, "warmup_steps": 1, "workers": 1},
    **{"batch_tokens": 64, "train_pairs": 20, "held_out": 2, "evaluate_every": 2, "average_last": 1},
}
THREADS = pytest.mark.numpy_only("workers are threads that share the cores of a CPU")


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


def gradients(model, batch, number):
    with Workers(model, number) as workers:
        loss = float(workers.gradients(batch, 0.1))
        copies = [twin.parameters() for twin in workers.models]
        total = [
            sum((to_numpy(copy[i].grad) for copy in copies if copy[i].grad is not None), start=np.zeros(p.shape))
            for i, p in enumerate(model.parameters())
        ]
    return loss, total, model.rng.bit_generator.state


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_one_worker_has_the_loss_and_gradients_of_the_operation(label_smoothing):
    model, same, batch = model_of(0.0), model_of(0.0), batch_of(4)
    with Workers(model) as workers:
        found = float(workers.gradients(batch, label_smoothing))
    logits = same(batch.source, batch.target_input)
    loss = ops.cross_entropy(logits, batch.target_output, label_smoothing=label_smoothing, ignore_index=PAD)
    loss.backward()
    assert found == pytest.approx(loss.item(), rel=1e-14)
    for p, q in zip(model.parameters(), same.parameters(), strict=True):
        np.testing.assert_allclose(p.grad, q.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_both_kinds_of_step_are_that_of_a_loop_of_ones_own(label_smoothing):
    found = []
    for kind in ("own", "training", "shared"):
        model, losses, runs = model_of(0.0), [], []
        optimiser = Adam(model.parameters())
        step_of = optimiser.step
        optimiser.step = lambda *given, step_of=step_of, runs=runs: runs.extend(given[2:]) or step_of(*given)
        workers = Workers(model)
        for seed in range(3):
            batch = batch_of(4, seed)
            if kind == "own":
                optimiser.zero_grad()
                logits = model(batch.source, batch.target_input)
                loss = ops.cross_entropy(logits, batch.target_output, label_smoothing, PAD)
                loss.backward()
                optimiser.step(0.01)
            elif kind == "training":
                loss = training_step(model, optimiser, batch, 0.01, label_smoothing)
            else:
                loss = shared_step(model, optimiser, batch, 0.01, label_smoothing, workers)
            losses.append(float(loss.item()))
        assert runs == [workers.each] * (3 if kind == "shared" else 0)
        found.append((losses, to_numpy(optimiser.values).tolist()))
    assert found[0] == found[1] == found[2]


@THREADS
@pytest.mark.parametrize("number", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_n_workers_agree_with_one(number, dropout):
    batch = batch_of(7)
    loss, expected, state = gradients(model_of(dropout), batch, 1)
    model = model_of(dropout)
    found_loss, found, found_state = gradients(model, batch, number)
    assert found_loss == pytest.approx(loss, rel=1e-14)
    for p, g, e in zip(model.parameters(), found, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-15, err_msg=str(p.shape))
    assert found_state == state  # the next step's dropout is the same too
    assert (model.rng.before, model.rng.after) == (0, 0)


def steps(number, delays=None, dtype="float32", threads=None):
    model = model_of(dtype=dtype)
    optimiser = Adam(model.parameters())
    losses = []
    with Workers(model, number, threads or number) as workers:
        if delays is not None:
            for worker in workers.models:
                worker.encoder.layers[0] = Slow(worker.encoder.layers[0], delays)
        for step in range(5):
            losses.append(float(shared_step(model, optimiser, batch_of(8, step), 1e-2, 0.1, workers)))
    return losses, optimiser.values


class Slow:
    """A layer that takes its time."""

    def __init__(self, layer, delays):
        self.layer, self.delays = layer, delays

    def __call__(self, *arguments, **options):
        time.sleep(next(self.delays))
        return self.layer(*arguments, **options)


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=THREADS), pytest.param(3, marks=THREADS)])
@pytest.mark.parametrize("slow", [False, True])
def test_neither_threads_nor_who_is_first_change_a_bit(threads, slow):
    losses, values = steps(5, threads=1)
    rng = np.random.default_rng(threads)
    # The slow layers hide their parameters from parameters(), so they are put in after the workers were made.
    found, same = steps(5, iter(lambda: rng.random() * 0.02, None) if slow else None, threads=threads)
    assert found == losses
    np.testing.assert_array_equal(to_numpy(same), to_numpy(values))


@THREADS
def test_all_workers_look_at_the_same_weights():
    model = model_of()
    optimiser = Adam(model.parameters())
    with Workers(model, 3) as workers:
        shared_step(model, optimiser, batch_of(6), 1e-2, 0.1, workers)
        for twin in workers.models:
            both = zip(twin.parameters(), model.parameters(), strict=True)
            assert all(np.shares_memory(p.data, q.data) for p, q in both)
        model.parameters()[0].data = np.zeros_like(model.parameters()[0].data)  # somebody assigns
        workers.gradients(batch_of(6), 0.1)
        assert all(not twin.parameters()[0].data.any() for twin in workers.models)


@THREADS
def test_training_drops_out_entries_whatever_the_mode_of_the_model():
    states, losses = [], []
    for training in (True, False):
        model = model_of().train(training)
        with Workers(model, 2) as workers:
            before = model.rng.bit_generator.state
            losses.append(float(workers.gradients(batch_of(6), 0.1)))
            states.append(model.rng.bit_generator.state)
            assert states[-1] != before
            assert model.training == training
    assert losses[0] == losses[1]
    assert states[0] == states[1]


@THREADS
def test_a_mistake_in_a_worker_is_raised_and_the_next_batch_works():
    model = model_of(0.0)
    good, bad = batch_of(6), batch_of(6)
    bad.source[5, 0] = 99
    with Workers(model, 3) as workers:
        before = float(workers.gradients(good, 0.1))
        with pytest.raises(IndexError, match="id 99 is out of range"):
            workers.gradients(bad, 0.1)
        assert (model.rng.before, model.rng.after) == (0, 0)
        assert float(workers.gradients(good, 0.1)) == before


@THREADS
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


@THREADS
def test_threads_and_python_are_left_as_they_were():
    def state():
        return sys.getswitchinterval(), [
            info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"
        ]

    with blas.threads(2):
        before = state()
        assert 2 in before[1]
        with Workers(model_of(), blas.cores() + 1, 2):
            interval, threads = state()
            assert interval < before[0]
            assert set(threads) == {1}
        assert state() == before
        with pytest.raises(ZeroDivisionError), Workers(model_of(), 2):
            raise ZeroDivisionError
        assert state() == before


@THREADS
def test_each_keeps_the_order():
    with Workers(model_of(), 3, 3) as workers:
        for n in (0, 1, 2, 3, 10):
            assert workers.each(lambda i: i * i, range(n)) == [i * i for i in range(n)]
    assert Workers(model_of(), 1).each(str, [2, 1]) == ["2", "1"]


@THREADS
@cases_from_toml
def test_no_share_has_two_threads_and_products_share_the_cores_by_shares(
    monkeypatch, shares, threads, blas_threads, expected
):
    asked = []
    monkeypatch.setattr(blas, "cores", lambda: 4)
    monkeypatch.setattr(blas, "default_threads", lambda n: 100 + n)
    monkeypatch.setattr(blas, "threads", lambda n: asked.append(n) or nullcontext())
    with Workers(model_of(), shares, threads, blas_threads) as workers:
        assert [workers.threads, *asked] == expected


@THREADS
def test_by_default_each_core_has_a_worker_if_it_has_enough_to_do(monkeypatch):
    monkeypatch.setattr(blas, "cores", lambda: 8)
    assert [default_workers(n) for n in (1, 300, 512, 1100, 10**6)] == [1, 1, 2, 4, 8]
    monkeypatch.setattr("minitransformer.sharding.workers.backend", lambda: "cupy")
    assert default_workers(10**6) == 1
    with pytest.raises(ValueError, match="workers must be 1 with cupy, found 2"):
        Workers(model_of(), 2, 2)
    assert Workers(model_of(), 2).threads == 1


@THREADS
@pytest.mark.parametrize("most", [0, 2])
def test_where_the_system_refuses_threads_one_works_alone(monkeypatch, few_threads, most):
    monkeypatch.setattr(blas, "cores", lambda: 4)
    expected, batch = gradients(model_of(), batch_of(5), 4), batch_of(5)
    few_threads(most)
    with pytest.warns(UserWarning, match="refused more threads"):
        loss, total, state = gradients(model_of(), batch, 4)
    assert (loss, state) == (expected[0], expected[2])
    assert all(map(np.array_equal, total, expected[1]))
    assert threading.active_count() == 1
