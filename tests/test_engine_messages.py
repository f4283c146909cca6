"""Errors that the engine raises outside `ops`: their kinds, and what their messages must name."""

import sys
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer import nn
from minitransformer.nn.recompute import recompute

pytestmark = pytest.mark.numpy_only("the types of some messages are NumPy's")
SMALL = {"d_model": 4, "n_heads": 2, "n_layers": 1, "d_ff": 4}


def t(*shape, dtype="float64"):
    return mt.Tensor(np.ones(shape, dtype=dtype), requires_grad=True)


def returning(*gradients, value=None):
    """Return the backward pass, from a value, of an operation with two inputs that returns these gradients."""
    operation = mt.Operation(lambda x, y: (x * y, None) if value is None else value, lambda *_: gradients, name="own")
    operation(t(2), t(2)).sum().backward()


def changed_later():
    x = t(2)
    y = x * x
    x.data[...] = 3
    y.sum().backward()


def released():
    y = t(2).exp().sum()
    y.backward(release=True)
    y.backward()


def without_cupy(**cupy):
    """Ask for CuPy where it is not installed, or is a module with these names."""
    with patch.dict(sys.modules, cupy=SimpleNamespace(**cupy) if cupy else None):
        mt.use("cupy")


def recomputed_without_a_graph():
    y = recompute(lambda x: x * x, t(2)).sum()
    with mt.no_grad():
        y.backward()


def model(**options):
    return nn.Transformer(9, 9, **SMALL | options)


def adam(parameters=None, state=None, **options):
    adam = mt.optim.Adam([t(2, 3)] if parameters is None else parameters, **options)
    adam.load_state_dict(adam.state_dict() | (state or {}))
    return adam


@cases_from_toml
def test_an_error_names_what_was_found(call, kind, words):
    with pytest.raises(Exception) as error:  # noqa: PT011 (its kind is in the table)
        eval(call, globals())
    assert type(error.value).__name__ == kind
    assert [word for word in words if word not in f"{error.value}"] == [], f"{error.value}"
