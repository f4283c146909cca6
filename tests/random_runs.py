"""Runs of random weights."""

from functools import cache

import numpy as np
from marian_folders import TEXTS

import minitransformer as mt
from minitransformer.apps.interop import Published, write_run
from minitransformer.data import Bpe
from minitransformer.runs import Configuration, TrainedRun, open_model
from minitransformer.tasks import build

SMALL = {"d_model": 12, "n_heads": 2, "n_layers": 2, "d_ff": 10}


@cache
def learned(first, size):
    return Bpe.train(TEXTS[first:], size=size)


def random_model(two=False, source=None, target=None, dtype="float64", search=None, **options):
    """Return a model of random weights, as what was read of another program."""
    source = source or learned(0, 40)
    target = target or (learned(2, 36) if two else source)
    options = SMALL | {"dtype": dtype} | options
    share = options.get("share_embeddings", True)
    share = "target" if share is True and source is not target else share
    model = mt.nn.Transformer(len(source), len(target), **options | {"share_embeddings": share})
    return Published(model=options, state=noisy(model), source=source, target=target, search=search or {})


def noisy(model, seed=1):
    """Return the parameters of a model with noise, so that none is zero or one."""
    rng = np.random.default_rng(seed)
    state = model.state_dict()
    return {name: value + rng.normal(0, 0.3, value.shape).astype(value.dtype) for name, value in state.items()}


def in_memory(published):
    """Return the run that would be written and opened again."""
    task = build("characters" if published.decoder_only else "text")
    configuration = Configuration.of_task(task, **published.model, **published.search)
    state = {name: array.copy() for name, array in published.state.items()}
    model = open_model(configuration, published.source, published.target, state)
    return TrainedRun(model, task, published.source, published.target, None, "last", configuration)


def trained(folder, **options):
    """Return a run of random weights, from a run folder."""
    write_run(random_model(**options), folder)
    return mt.load(folder)
