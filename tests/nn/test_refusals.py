"""What models and their parts refuse: the kind of error, and what its message must name."""

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer import nn

pytestmark = pytest.mark.numpy_only("the types of some messages are NumPy's")
SMALL = {"d_model": 4, "n_heads": 2, "n_layers": 1, "d_ff": 4}


def t(*shape):
    return mt.Tensor(np.ones(shape), requires_grad=True)


def model(**options):
    return nn.Transformer(9, 9, **SMALL | options)


@cases_from_toml
def test_an_error_names_what_was_found(call, kind, words):
    with pytest.raises(Exception) as error:  # noqa: PT011 (its kind is in the table)
        eval(call, globals())
    assert type(error.value).__name__ == kind
    assert [word for word in words if word not in f"{error.value}"] == [], f"{error.value}"
