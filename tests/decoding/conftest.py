"""Untrained models that write as varied sentences as trained ones do."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray


@pytest.fixture
def make_model():
    def make(target_vocab=9, seed=3, scale=0.5, **options):
        # An output of its own, large weights and chance leanings: so an untrained model writes sentences that differ,
        # and some of them end.
        options = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "dtype": "float64"} | options
        model = mt.nn.Transformer(11, target_vocab, seed=seed, share_embeddings=False, **options)
        rng = np.random.default_rng(seed + 2)
        for parameter in model.parameters():
            parameter.data[...] += asarray(rng.normal(0, scale, parameter.shape))
        return model

    return make


@pytest.fixture
def model(make_model):
    return make_model()


@pytest.fixture
def favour(monkeypatch):
    """Add something to a token's score at each step."""

    def change(model, token, by):
        step = model.step

        def changed(*args, **options):
            logits = step(*args, **options)
            logits[..., token] += by
            return logits

        monkeypatch.setattr(model, "step", changed)

    return change
