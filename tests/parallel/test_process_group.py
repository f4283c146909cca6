"""Several processes train exactly as one does: the numbers depend on the micro-batches, never on who works on them."""

import numpy as np
import pytest
from run_contents import agree
from together import run_together

from minitransformer.arrays import blas, cache_slices
from minitransformer.autograd import Tensor
from minitransformer.data import PAD, Batch
from minitransformer.gradients import Sum
from minitransformer.nn import Transformer
from minitransformer.optim import Adam, Gradient
from minitransformer.parallel import SINGLE_PROCESS
from minitransformer.runs import Configuration
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    clip_gradient,
    create_run,
    training_step,
)

pytestmark = pytest.mark.numpy_only("the processes here are threads, which share the one GPU")
MICRO_BATCHES = 4


@pytest.fixture(autouse=True)
def settings_of_the_process():
    """Restore what each process sets for itself: the processes here are threads, and share it."""
    with blas.threads(1):
        yield


def batch_of(n, seed):
    rng = np.random.default_rng(seed)
    batch = Batch(*(rng.integers(1, 300, (n, 6)) for _ in range(3)))
    for row in range(n):
        batch.target_output[row, rng.integers(1, 7) :] = PAD
    return batch


def model_of(d_model):
    return Transformer(300, 300, d_model=d_model, n_heads=2, n_layers=1, d_ff=40, dropout=0.2, seed=1)


def train(group=SINGLE_PROCESS, clip=None, accumulate=1, d_model=32, micro_batches=MICRO_BATCHES):
    """Train for some steps; batches of one sentence leave micro-batches empty."""
    model = model_of(d_model)
    optimiser = Adam(model.parameters(), weight_decay=0.1, part=(group.rank, group.size), values=group.weights)
    losses = []
    for step, n in enumerate((5, 1, 3, 6)):
        batches = [batch_of(n + 5 * i, 10 * step + i) for i in range(accumulate)]
        losses.append(
            float(
                training_step(model, optimiser, batches, 1e-2, 0.1, clip=clip, micro_batches=micro_batches, group=group)
            )
        )
    return losses, optimiser.values.copy(), model.rng.bit_generator.state, optimiser.mean


@pytest.mark.parametrize(("clip", "accumulate"), [(None, 1), (0.3, 2)])
@pytest.mark.parametrize(("size", "micro_batches"), [(2, 4), (3, 4), (4, 4), (4, 8)])
def test_processes_change_no_bit(size, micro_batches, clip, accumulate):
    """Of eight micro-batches of five sentences, those of the last process are empty."""
    losses, values, state, mean = train(clip=clip, accumulate=accumulate, micro_batches=micro_batches)
    found = run_together(size, lambda group: train(group, clip, accumulate, micro_batches=micro_batches))
    for other_losses, other, other_state, _ in found:
        assert other_losses == losses
        assert np.array_equal(other, values)
        assert other_state == state
    assert np.array_equal(np.concatenate([own for *_, own in found]), mean)


def test_a_model_smaller_than_the_processes_slices():
    """The running means of some processes are empty."""
    expected = train(d_model=2)
    for found in run_together(4, lambda group: train(group, d_model=2)):
        assert found[0] == expected[0]
        assert np.array_equal(found[1], expected[1])


def test_fewer_shares_than_processes_are_refused():
    with pytest.raises(ValueError, match="micro_batches must be at least 5, one for each process, found 4"):
        run_together(5, train)


def test_the_first_process_writes_the_whole_run(tmp_path):
    """Each process has a part of the running means and of the mean weights; a checkpoint has all of them."""
    options = {
        **{"d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 600, "steps": 2, "warmup_steps": 1, "workers": 1},
        **{"batch_tokens": 64, "train_pairs": 20, "held_out": 2, "evaluate_every": 2, "average_last": 2},
    }
    configuration = Configuration.of_task(build("copy"), **options, micro_batches=2, blas_threads=1)

    def run(group, name):
        trainer = Trainer(configuration, group=group)
        path = tmp_path / f"{name}{group.rank}"
        folder = group.broadcast(lambda: create_run(path, trainer.configuration, trainer.corpus))
        trainer.train(folder)
        assert trainer.optimiser.mean.size
        return trainer.checkpoint()._replace(path=None, state=None)

    expected = run(SINGLE_PROCESS, "alone")
    np.testing.assert_equal(run_together(2, lambda group: run(group, "together")), [expected, expected])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone0", "together0"]
    agree(tmp_path / "together0", tmp_path / "alone0")


def test_the_norm_does_not_depend_on_who_added_up_what():
    """One after the other, the small squares are lost beside the 1; added up by themselves first, they are not."""
    gradient = np.zeros(200_000)
    gradient[[part.start for part in cache_slices(gradient.size)]] = 2.0**-27
    gradient[0] = 1

    def norm(group):
        parameter = Tensor(np.zeros_like(gradient), requires_grad=True)
        parameter.grad = gradient
        optimiser = Adam([parameter], part=(group.rank, group.size))
        return float(clip_gradient(Sum([Gradient(optimiser.buffer)]), optimiser.buffer, 1.0, group.all_gather)[1])

    assert [norm(SINGLE_PROCESS), *run_together(2, norm), *run_together(3, norm)] == [1] * 6
