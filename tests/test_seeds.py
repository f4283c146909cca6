"""Whatever takes a seed gives the same for the same seed, and something else for each other one."""

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.measure import heads, recall
from minitransformer.apps.measure.position_tasks import Recall
from minitransformer.apps.measure.positions import PositionsModel, PositionsSizes
from minitransformer.apps.measure.positions import train_model as train_positions
from minitransformer.apps.measure.recall import RecallSizes, accuracy_by_position
from minitransformer.apps.measure.recall import train as train_recall
from minitransformer.apps.measure.recall_model import RecallModel
from minitransformer.arrays import to_numpy
from minitransformer.data import RawCharacters, Trigram, batches, token_batches
from minitransformer.runs import Configuration
from minitransformer.tasks import build
from minitransformer.tasks.drawn import split
from minitransformer.tasks.text import _hold_out_some
from minitransformer.testing import check, gradcheck, sweep
from minitransformer.training.baselines import write_by_trigram, write_texts

pytestmark = pytest.mark.numpy_only("seeds are for generators of NumPy, also where arrays are on a device")

SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "dropout": 0.1}
RECALL = RecallSizes(symbols=5, n=24, d=8, k=3, r=3, batch=7, steps=1, warmup=1, fresh=40)
POSITIONS = PositionsSizes(n=8, times=(1, 1.5, 4), d_model=8, n_heads=2, n_layers=1, d_ff=8, batch=4, steps=1, fresh=5)
LETTERS = RawCharacters.train(["abcdefghij"])
TEXT = np.array(LETTERS.encode("abcdefghijacegibdfhj"))


def models(seed):
    return mt.nn.Transformer(9, 8, **SIZES, seed=seed), mt.nn.LanguageModel(len(LETTERS), **SIZES, seed=seed)


def first_weights(model):
    return to_numpy(next(p for p in model.parameters() if p.ndim > 1).data).ravel()[:5].tolist()


def built(task, seed):
    """Return what the configuration of a training makes of a seed."""
    return first_weights(Configuration.of_task(build(task)).changed(seed=seed, **SIZES).build_model(9, 9, True))


def square(x):
    return x * x


def shuffled_heads(seed):
    """Return how different shuffled heads are; the measurement of a run passes its seed on."""
    maps, made = np.random.default_rng(9).dirichlet(np.ones(5), (1, 6, 3, 5)), []
    model = SimpleNamespace(eval=lambda: model, attention_maps=lambda ids: {"decoder": maps})
    options = SimpleNamespace(build_model=lambda *sizes: model)
    trained = SimpleNamespace(options=options, source=LETTERS, target=LETTERS, model=model)
    for layer in heads.measure_heads(trained, [(maps,)], made.append, seed)["layers"]:
        made.append(layer["difference"]["shuffled"])
    return made


X = np.array([0.5, -1.5, 2.5, 0.25])
MADE = {
    "weights": lambda seed: [first_weights(model) for model in models(seed)],
    "dropout": lambda seed: [model.rng.random(3).tolist() for model in models(seed)],
    "a training's translator": lambda seed: built("copy", seed),
    "a training's language model": lambda seed: built("characters", seed),
    "texts of a model": lambda seed: write_texts(models(0)[1].eval(), LETTERS, 8, 2, 12, seed),
    "texts of a trigram model": lambda seed: write_by_trigram(Trigram(TEXT, len(LETTERS)), LETTERS, 2, 12, seed),
    "what is held out": lambda seed: _hold_out_some([(f"s{n}", f"t{n}") for n in range(200)], 9, seed),
    "batches": lambda seed: [b.tolist() for b in token_batches([3] * 20 + [5] * 9, 15, np.random.default_rng(seed))],
    "recall: weights": lambda seed: first_weights(RecallModel("recurrent", RECALL, seed)),
    "recall: sentences": lambda seed: train_recall(RecallModel("recurrent", RECALL, 0), RECALL, 3, 0.01, seed),
    "recall: measurement": lambda seed: accuracy_by_position(RecallModel("recurrent", RECALL, 0), RECALL, 3, seed=seed),
    "positions: weights": lambda seed: first_weights(PositionsModel(Recall(), "sinusoidal", POSITIONS, seed)),
    "positions: sentences": lambda seed: train_positions(
        PositionsModel(Recall(), "sinusoidal", POSITIONS, 0), Recall(), POSITIONS, seed
    ),
    "heads: shuffles": shuffled_heads,
    "check": lambda seed: check(np.square, backward=lambda x, d_y: 2 * x * d_y, inputs=[X], seed=seed).worst.found,
    "gradcheck": lambda seed: gradcheck(square, [X], seed=seed).inputs[0].claim,
    "sweep": lambda seed: sweep(square, [X], seed=seed, steps=[0.1, 0.01]).central,
}


@pytest.mark.parametrize("name", MADE)
def test_each_seed_gives_its_own_and_the_same_again(name):
    made = [repr(MADE[name](seed)) for seed in range(4)]
    assert made == [repr(MADE[name](seed)) for seed in range(4)]
    for (one, first), (other, second) in combinations(enumerate(made), 2):
        assert first != second, f"seeds {one} and {other}"


def test_weights_and_dropout_have_the_two_generators_that_follow_from_the_seed():
    """As in each earlier version: a seed that a publication names gives the same model again."""
    weights, dropout = np.random.SeedSequence(5).spawn(2)
    for model in models(5):
        assert model.rng.bit_generator.state == np.random.PCG64DXSM(dropout).state
    table = to_numpy(models(5)[1].target_embedding.table.data).ravel()
    drawn = np.random.default_rng(weights).standard_normal(table.size)
    np.testing.assert_allclose(table / table.std(), drawn / drawn.std(), rtol=1e-4)


def test_data_and_epochs_have_the_generators_of_the_seed_itself():
    task = build("copy")
    wanted = Configuration.of_task(task).changed(train_pairs=50, held_out=10, valid_pairs=5).data
    assert task.corpus(wanted, 5, None).train == split(task, 50, 10, np.random.default_rng(5))[0]
    epoch = np.random.default_rng(np.random.SeedSequence([3, 8]))
    assert batches._rng_of_epoch(3, 8).bit_generator.state == epoch.bit_generator.state


@pytest.mark.parametrize(("window", "expected"), [(9, 20), (33, 33)])
def test_a_model_of_characters_has_a_position_for_each_token_of_its_window(window, expected):
    wanted = Configuration.of_task(build("characters")).changed(**SIZES, max_length=20, window=window)
    assert wanted.build_model(9, 9, True).options.max_length == expected


def test_a_trigram_model_reads_the_last_two_tokens_of_what_it_writes():
    seen = []

    class Recorder:
        def next(self, ids):
            seen.append(ids.tolist())
            return np.ones((len(ids), len(LETTERS)))

    texts = [LETTERS.encode(text) for text in write_by_trigram(Recorder(), LETTERS, 2, 9)]
    assert seen == [[text[max(0, n - 2) : n] for text in texts] for n in range(9)]


def test_recall_is_measured_on_sentences_that_training_with_this_seed_does_not_draw(monkeypatch):
    seen, draw = [], recall.draw_batch
    monkeypatch.setattr(recall, "draw_batch", lambda *arguments: seen.append(draw(*arguments)) or seen[-1])
    model = RecallModel("recurrent", RECALL, 0)
    train_recall(model, replace(RECALL, batch=RECALL.fresh), 3, 0.01, seed=1)
    accuracy_by_position(model, RECALL, 3, seed=1)
    (trained, _), (measured, _) = seen
    assert trained.shape == measured.shape
    assert not (trained == measured).all(axis=1).any()
