"""What a function captures: found wherever it stands, and named if it changes."""

import functools

import numpy as np
import pytest
from check_cases import needs

import minitransformer as mt
from minitransformer.testing import examine
from minitransformer.testing.hidden import Hidden

X = np.array([0.5, -1.0, 2.0])
GLOBAL = np.zeros(3)


class Inner:
    def __init__(self):
        self.weight, self.parts = np.ones(3), [{"bias": np.ones(3)}]
        self.count = 0


class Layer:
    def __init__(self):
        self.inner = Inner()

    def __call__(self, x):
        return x * self.inner.weight

    def forward(self, x):
        return self(x)


def of_a_closure():
    gone, w = None, np.ones(3)

    def function(x):
        return gone if x is None else x * w  # noqa: F821

    del gone  # its cell is empty
    return function, w, "w"


def of_a_decorated_function():
    w = np.ones(3)

    def plain(x):
        return x * w

    @functools.wraps(plain)
    def wrapped(x):
        return plain(x)

    return wrapped, w, "w"


def of_globals():
    return lambda x: x * GLOBAL, GLOBAL, "GLOBAL"


def of_a_default():
    w = np.ones(3)
    return lambda x, w=w: x * w, w, "the default of w"


def of_a_default_by_name():
    w = np.ones(3)
    return lambda x, *, w=w: x * w, w, "the default of w"


def of_a_partial_function():
    w = np.ones(3)
    return functools.partial(lambda w, x: x * w, w), w, "argument 0 of the partial function"


def of_a_partial_function_by_name():
    w = np.ones(3)
    return functools.partial(lambda x, w: x * w, w=w), w, "w"


def of_an_object():
    layer = Layer()
    return layer, layer.inner.weight, "self.inner.weight"


def of_a_method():
    layer = Layer()
    return layer.forward, layer.inner.weight, "self.inner.weight"


def of_an_object_that_a_function_captures():
    layer = Layer()
    return lambda x: layer(x), layer.inner.weight, "layer.inner.weight"


def of_a_list_in_an_object():
    layer = Layer()
    return layer, layer.inner.parts[0]["bias"], "self.inner.parts[0]['bias']"


def of_a_tensor():
    w = mt.Tensor(np.ones(3))
    return lambda x: x * w, w.data, "w"


PLACES = [value for name, value in dict(globals()).items() if name.startswith("of_")]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_an_array_that_changes_is_named(place):
    function, array, name = place()
    hidden = Hidden(function, None)
    assert hidden.changes() == []
    array += 1
    assert hidden.changes() == [name]
    assert hidden.changes() == []


def test_a_number_that_changes_and_an_array_that_is_replaced():
    layer = Layer()
    hidden = Hidden(layer.forward)
    layer.inner.count += 1
    layer.inner.weight = np.zeros(2)
    assert hidden.changes() == ["self.inner.weight", "self.inner.count"]


def test_what_contains_itself():
    layer = Layer()
    layer.inner.layer = layer
    layer.inner.parts.append(layer.inner.parts)
    assert Hidden(layer).changes() == []


@needs("torch")
def test_parameters_and_buffers_of_pytorch():
    import torch

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(x)

    module = Scale()
    hidden = Hidden(module)
    module(torch.ones(2, 3))
    with torch.no_grad():
        module.norm.weight += 1
    names = ["norm.weight", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert hidden.changes() == [f"self.{name}" for name in names]


@needs("torch")
def test_what_cannot_be_read_is_not_watched():
    import torch

    layer = Layer()
    layer.w = torch.ones(2).to_sparse()
    assert Hidden(layer).changes() == []


@needs("jax")
@needs("mygrad")
def test_arrays_of_other_libraries():
    import jax.numpy as jnp
    import mygrad

    layer = Layer()
    layer.w, layer.v = jnp.ones(2), mygrad.tensor([1.0])
    hidden = Hidden(layer)
    layer.w = layer.w + 1
    layer.v.data[0] = 2.0
    assert hidden.changes() == ["self.w", "self.v"]


def test_a_backward_pass_that_steps_once():
    w, done = np.ones(3), []

    def backward(x, d_y):
        d_x = d_y * np.ones(3)
        if len(done) < 2:  # and gives the same gradient in all calls
            w[:] *= 0.9
            done.append(1)
        return d_x

    report = examine(lambda x: x * w, backward=backward, inputs=[X])
    assert report.verdict == "nondeterministic"
    assert report.cause.endswith("the backward pass changes w, which the function captures")


def test_a_module_that_changes_its_parameters():
    layer = Layer()

    def forward(x):
        layer.inner.weight = layer.inner.weight * 0.9
        return x * layer.inner.weight

    report = examine(forward, backward=lambda x, d_y: d_y * layer.inner.weight, inputs=[X])
    assert report.verdict == "nondeterministic"
    assert report.cause.endswith("each call changes layer.inner.weight, which the function captures")


def test_what_only_the_backward_pass_captures():
    total = np.zeros(3)

    def adding(x, d_y):
        total[:] += 2 * x * d_y
        return total.copy()

    report = examine(np.square, backward=adding, inputs=[np.ones(3)])
    assert report.cause.endswith("the backward pass changes total, which it captures")


def test_an_array_with_nan_that_stays_has_not_changed():
    rng, table = np.random.default_rng(0), np.array([np.nan, 1.0])
    report = examine(lambda x: x * rng.random(2) * table[1], backward=lambda x, d_y: d_y, inputs=[np.ones(2)])
    assert report.verdict == "nondeterministic"
    assert "captures" not in report.cause
