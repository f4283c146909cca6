"""What follows from a model's seed, and what a copy of a model has of its own."""

import copy
import pickle
from itertools import combinations

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import to_numpy
from minitransformer.data import Batch
from minitransformer.training import training_step

IDS = np.array([[3, 1, 6, 2], [2, 2, 5, 4]])
SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 2, "d_ff": 7, "positions": "learned", "max_length": 4}


def model_of(seed=0, **options):
    return mt.nn.Transformer(9, 8, **SIZES | options, seed=seed)


@pytest.mark.parametrize("recompute", [False, True])
def test_models_of_other_seeds_drop_other_entries(recompute):
    """Also with equal weights: runs that are to be independent must not share what dropout draws."""
    one, other = model_of(1, dropout=0.4, recompute=recompute), model_of(2, dropout=0.4, recompute=recompute)
    other.load_state_dict(one.state_dict())
    assert not np.array_equal(one(IDS, IDS).numpy(), other(IDS, IDS).numpy())
    np.testing.assert_array_equal(one.eval()(IDS, IDS).numpy(), other.eval()(IDS, IDS).numpy())


def test_no_two_places_begin_with_the_same_weights():
    drawn = [(name, to_numpy(p.data)) for name, p in model_of().named_parameters() if p.ndim > 1]
    assert len(drawn) > 20
    for (name, one), (other_name, other) in combinations(drawn, 2):
        assert one.ravel()[0] != other.ravel()[0], f"{name} and {other_name}"


def test_the_layers_of_a_stack_drop_other_entries():
    """The second of two equal layers would drop what the first one drops if both drew from the same place."""
    drawn = []

    class Recorder(np.random.Generator):
        def integers(self, *arguments, **options):
            drawn.append(super().integers(*arguments, **options))
            return drawn[-1]

    model_of(dropout=0.4)(IDS, IDS, Recorder(np.random.PCG64(0)))
    assert len(drawn) == 2 + 2 * 2 + 2 * 3  # two embeddings, and after each sub-layer
    assert all(not np.array_equal(one, other) for one, other in combinations(drawn, 2))


def train(model, adam):
    """Return the losses of a few steps."""
    batch = Batch(IDS, IDS, IDS)
    return [float(training_step(model, adam, batch, 0.05, 0.1)) for _ in range(3)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copied_model_trains_with_its_copied_optimiser_as_the_original_does(copied):
    model = model_of(dropout=0.3)
    pair = model, mt.optim.Adam(model.parameters())
    train(*pair)
    twin = copied(pair)
    assert twin[0].target_embedding.table is twin[0].output  # what was shared is still shared
    losses = train(*twin)  # they would differ from step to step if its weights stood still
    assert losses == train(*pair)
