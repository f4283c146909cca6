"""The experiment asks what it says, each kind of layer reaches exactly as far as is said, and training helps."""

from dataclasses import replace

import numpy as np
import pytest

from minitransformer.apps.measure import recall
from minitransformer.apps.measure.layers import LAYERS
from minitransformer.apps.measure.recall import (
    NO_TARGET,
    accuracy_by_position,
    draw_batch,
    train,
)
from minitransformer.apps.measure.recall_model import RecallModel, RecallSizes, chance, reach

pytestmark = pytest.mark.numpy_only("an experiment, on the processor")
SMALL = RecallSizes(symbols=5, n=24, d=8, k=3, r=3, batch=7, steps=60, warmup=10, fresh=40)


@pytest.mark.parametrize("distance", [0, 1, 5, 23])
def test_a_target_is_what_was_there_so_far_back(distance):
    ids, targets = draw_batch(SMALL, distance, np.random.default_rng(0))
    assert ids.shape == targets.shape == (7, 24)
    assert set(np.unique(ids)) == set(range(5))
    for sentence, wanted in zip(ids.tolist(), targets.tolist(), strict=True):
        assert wanted == [sentence[t - distance] if t >= distance else NO_TARGET for t in range(24)]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("layers", "k", "r"), [(1, 3, 3), (2, 3, 3), (2, 2, 5), (3, 2, 1)])
def test_a_layer_reaches_exactly_as_far_as_is_said(kind, layers, k, r):
    sizes = replace(SMALL, layers=layers, k=k, r=r)
    model = RecallModel(kind, sizes)
    rng = np.random.default_rng(3)
    ids, _ = draw_batch(sizes, 0, rng)
    x = model.embed(ids).detach()
    x.requires_grad = True
    y, t = model.encode(x), 20
    d_y = np.zeros(y.shape, dtype=np.float32)
    d_y[:, t] = rng.normal(size=d_y[:, t].shape)
    y.backward(d_y)
    reached = [bool((x.grad[:, s] != 0).any()) for s in range(sizes.n)]
    far = reach(kind, sizes)
    assert reached == [s <= t and (far is None or t - s <= far) for s in range(sizes.n)]


def test_all_kinds_have_as_many_parameters():
    counts = [sum(p.size for p in RecallModel(kind, RecallSizes()).parameters()) for kind in LAYERS]
    assert max(counts) < 1.03 * min(counts)


@pytest.mark.parametrize("kind", LAYERS)
def test_training_helps_within_reach(kind):
    sizes = replace(SMALL, d=16, batch=16, steps=150)
    model = RecallModel(kind, sizes)
    before = accuracy_by_position(model, sizes, 1).mean()
    losses = train(model, sizes, 1, rate=0.02)
    assert len(losses) == sizes.steps
    assert losses[0] > np.log(5) - 0.3
    assert np.mean(losses[-10:]) < 0.5 * np.log(5)
    assert accuracy_by_position(model, sizes, 1).mean() > max(0.8, before + 0.4)


@pytest.mark.parametrize("kind", ["convolutional", "restricted self-attention"])
def test_nothing_is_learnt_beyond_reach(kind):
    far = reach(kind, SMALL) + 1
    model = RecallModel(kind, SMALL)
    losses = train(model, SMALL, far, rate=0.02)
    found = accuracy_by_position(model, replace(SMALL, fresh=400), far)
    # Targets are independent and even: the share of right answers is that of a coin with so many sides.
    spread = (chance(SMALL) * (1 - chance(SMALL)) / (400 * found.size)) ** 0.5
    assert abs(found.mean() - chance(SMALL)) < 5 * spread
    assert np.mean(losses[-20:]) > np.log(5) - 0.02


def test_positions_that_were_never_trained_stay_as_they_were():
    model = RecallModel("self-attention", SMALL, positions="learned", longest=48)
    before = model.positions.data.copy()
    train(model, SMALL, 1, rate=0.02)
    moved = (model.positions.data != before).any(axis=1)
    assert moved[:24].all()
    assert not moved[24:].any()
    assert accuracy_by_position(model, SMALL, 1, n=48).shape == (47,)


def test_every_seed_and_distance_has_sentences_of_its_own(monkeypatch):
    drawn = []
    monkeypatch.setattr(recall, "fit", lambda parameters, loss, *sizes: loss())
    monkeypatch.setattr(recall, "draw_batch", lambda *given: drawn.append(draw_batch(*given)) or drawn[-1])
    for seed, distance in ((0, 1), (0, 2), (1, 2), (2, 1)):
        recall.train(RecallModel("recurrent", SMALL), SMALL, distance, 0.01, seed)
    assert len({ids.tobytes() for ids, _ in drawn}) == 4
