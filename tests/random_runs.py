"""Runs of random weights."""

import numpy as np
from marian_folders import TEXTS

import minitransformer as mt
from minitransformer.apps.exchange import Published, write_run
from minitransformer.data import Bpe

SMALL = {"d_model": 12, "n_heads": 2, "n_layers": 2, "d_ff": 10}


def trained(folder, two=False, source=None, target=None, dtype="float64", search=None, **options):
    """Return a run of random weights."""
    source = source or Bpe.train(TEXTS, size=40)
    target = target or (Bpe.train(TEXTS[2:], size=36) if two else source)
    options = SMALL | {"dtype": dtype} | options
    share = options.get("share_embeddings", True)
    share = "target" if share is True and source is not target else share
    model = mt.nn.Transformer(len(source), len(target), **options | {"share_embeddings": share})
    rng = np.random.default_rng(1)
    state = {name: value + rng.normal(0, 0.3, value.shape).astype(dtype) for name, value in model.state_dict().items()}
    write_run(Published(model=options, state=state, source=source, target=target, search=search or {}), folder)
    return mt.load(folder)
