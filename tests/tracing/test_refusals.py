"""What traces, edits, differences and searches refuse: the kind of error, and what its message names."""

import builtins
import re

import numpy as np
import pytest
import small_models
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.data import END, PAD, START

S = np.array([[3, 4, 6, 2], [5, 2, 0, 0]])
T = np.array([[1, 5, 4, 3, 2], [1, 3, 2, 0, 0]])
NUMBERS = {"START": START, "END": END, "PAD": PAD, "inf": np.inf, "nan": np.nan}


def difference(model, key, index, *, objective=None, edits=(), steps=None):
    return mt.tracing.difference(model, S, T, objective, edits, key, index, steps)


def edited(model, edit):
    return mt.trace(model, S, T, edits=[edit]).value


def without_gradients(function, *arguments):
    with mt.no_grad():
        return function(*arguments)


@pytest.fixture(scope="module")
def names(model, make_model):
    options = {"d_model": 6, "n_heads": 2, "n_layers": 1, "d_ff": 5}
    models = {
        "model": model,
        "text_model": mt.nn.LanguageModel(8, **options),
        "float32": make_model(n_layers=1, dtype="float32"),
        "diverged": make_model(n_layers=1),
    }
    models["diverged"].output.data[3, 0] = np.nan
    return vars(mt) | vars(mt.tracing) | vars(small_models) | globals() | NUMBERS | models


@cases_from_toml
def test_what_cannot_be_done(names, call, kind, named):
    with pytest.raises(vars(builtins).get(kind) or mt.decoding.Diverged) as refused:
        eval(call, dict(names))
    assert refused.typename == kind
    message = re.sub(r"^[A-Z]\w+\(.*\): (?=this|the|expected)", "", str(refused.value))  # the edit that is refused
    for word in named:
        assert word in message
