"""Gradients of several batches together, and gradients that are too long."""

import numpy as np
import pytest

from minitransformer.arrays import to_numpy
from minitransformer.data import PAD, Batch
from minitransformer.gradients import Sum
from minitransformer.nn import Transformer
from minitransformer.optim import Adam, Gradient
from minitransformer.training import clip_gradient, training_step

from .steps import gradient_of, whole_of

BY_SHARES = pytest.mark.parametrize("number", [1, 2, 3])


def model_of(dropout=0.0):
    return Transformer(11, 13, d_model=8, n_heads=2, n_layers=1, d_ff=10, dropout=dropout, dtype="float64", seed=1)


def batch_of(n, seed, length=5):
    rng = np.random.default_rng(seed)
    batch = Batch(*(rng.integers(1, 11, (n, length)) for _ in range(3)))
    for row in range(n):
        batch.target_output[row, rng.integers(1, length + 1) :] = PAD
    return batch


def own(optimiser):
    return Sum([Gradient(optimiser.buffer)])


@BY_SHARES
def test_batches_together_are_one_larger_batch(number):
    parts = [batch_of(4, seed=0), batch_of(1, seed=1), batch_of(3, seed=2)]
    tokens = [int((part.target_output != PAD).sum()) for part in parts]
    assert len(set(tokens)) == 3  # the mean over batches would be another
    whole = Batch(*(np.concatenate(sides) for sides in zip(*parts, strict=True)))
    expected_loss, expected = gradient_of(model_of(), whole)
    loss, found = gradient_of(model_of(), parts, micro_batches=number)
    assert loss == pytest.approx(expected_loss, rel=1e-13)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@BY_SHARES
def test_a_long_gradient_is_shortened_and_keeps_its_direction(number):
    _, whole = gradient_of(model_of(), batch_of(6, 0))
    length = float(np.linalg.norm(whole))
    for longest, factor in ((length / 4, 0.25), (length * 1.01, 1.0)):
        _, found = gradient_of(model_of(), batch_of(6, 0), micro_batches=number, clip=longest)
        np.testing.assert_allclose(found, factor * whole, rtol=1e-9, atol=1e-15)


def test_the_norm_is_that_before_clipping():
    model = model_of()
    optimiser = Adam(model.parameters())
    model(*batch_of(6, 0).inputs).sum().backward()
    expected = np.linalg.norm(whole_of(own(optimiser), optimiser))
    assert float(clip_gradient(own(optimiser), optimiser.buffer, expected / 4)[1]) == pytest.approx(expected, rel=1e-12)


def test_clipping_is_part_of_the_step():
    def after(clip):
        model = model_of()
        optimiser = Adam(model.parameters(), eps=1.0)  # with a large eps, Adam's steps are as long as the gradient
        training_step(model, optimiser, batch_of(6, 0), 1.0, 0.1, clip=clip)
        return to_numpy(optimiser.values).copy()

    np.testing.assert_array_equal(after(None), after(1e9))
    assert np.linalg.norm(after(1e-6) - after(1e-9)) < 1e-5 < np.linalg.norm(after(None) - after(1e-6))


def test_float32_stays_float32():
    model = Transformer(11, 13, d_model=8, n_heads=2, n_layers=1, d_ff=10, seed=1)
    gradient_of(model, batch_of(6, 0))
    optimiser = Adam(model.parameters())
    clipped, _ = clip_gradient(own(optimiser), optimiser.buffer, 1e-3)
    assert {array.dtype for array in clipped.by_parameter()} == {np.dtype("float32")}
    assert all(p.grad.dtype == "float32" for p in model.parameters())


@pytest.mark.parametrize("zeros", [False, True])
def test_nothing_is_shortened_where_there_is_no_gradient(zeros):
    model = model_of()
    for p in model.parameters():
        p.grad = p.data * 0 if zeros else None
    optimiser = Adam(model.parameters())
    clipped, length = clip_gradient(own(optimiser), optimiser.buffer, 1.0)
    assert float(length) == 0
    assert not whole_of(clipped, optimiser).any()
