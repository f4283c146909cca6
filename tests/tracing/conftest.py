"""A small untrained model in float64, with biases, varied weights and two sentences of different lengths."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray


@pytest.fixture(scope="session")
def make_model():
    def make(seed=3, target_vocab=7, **options):
        options = {"d_model": 6, "n_heads": 2, "n_layers": 2, "d_ff": 5, "dtype": "float64"} | options
        model = mt.nn.Transformer(8, target_vocab, seed=seed, share_embeddings=False, **options)
        rng = np.random.default_rng(seed)
        for parameter in model.parameters():
            parameter.data[...] += asarray(rng.normal(0, 0.5, parameter.shape))
        return model.eval()

    return make


@pytest.fixture(scope="session")
def model(make_model):
    return make_model(n_layers=1, attention_bias=True)
