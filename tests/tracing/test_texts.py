"""Whole messages of traces, edits, differences and searches: each call of the table, and all that it says."""

import numpy as np
import small_models
from toml_cases import cases_from_toml, told

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


@cases_from_toml
def test_what_a_call_says(model, make_model, call, text):
    options = {"d_model": 6, "n_heads": 2, "n_layers": 1, "d_ff": 5}
    models = {
        "model": model,
        "text_model": mt.nn.LanguageModel(8, **options),
        "float32": make_model(n_layers=1, dtype="float32"),
        "diverged": make_model(n_layers=1),
    }
    models["diverged"].output.data[3, 0] = np.nan
    names = vars(mt) | vars(mt.tracing) | vars(small_models) | globals() | NUMBERS | models
    assert told(call, names) == text.strip()
