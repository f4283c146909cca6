"""The checker for functions of several outputs, and of structures of arrays."""

import re
from collections import namedtuple

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.testing import CheckError, check, examine

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 5)), RNG.normal(size=5)
Norm = namedtuple("Norm", "y mean")


def norm(x, w):
    mean = x.mean(axis=-1, keepdims=True)
    return Norm((x - mean) * w, mean[..., 0])


def norm_backward(x, w, d):
    d_u = d.y * w
    d_mean = d.mean[..., None] - d_u.sum(axis=-1, keepdims=True)
    return d_u + d_mean / x.shape[-1], (d.y * (x - x.mean(axis=-1, keepdims=True))).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_right_gradient_of_two_outputs(dtype):
    report = check(norm, backward=norm_backward, inputs=[X.astype(dtype), W.astype(dtype)])
    assert [(record.name, record.comparisons) for record in report.inputs] == [("x", 15), ("w", 5)]


FAULTS = {
    "y.mean .*2 times": lambda d: Norm(d.y, 2 * d.mean),
    "y.y .*sign": lambda d: Norm(-d.y, d.mean),
    "y.mean .*ignores": lambda d: Norm(d.y, 0 * d.mean),
    "sign": lambda d: Norm(-d.y, -d.mean),
}


@pytest.mark.parametrize("cause", FAULTS)
def test_the_output_at_fault_is_named(cause):
    report = examine(norm, backward=lambda x, w, d: norm_backward(x, w, FAULTS[cause](d)), inputs=[X, W])
    assert report.verdict == "wrong"
    assert re.search(cause, report.cause)


def test_the_output_at_fault_is_named_for_one_wrong_entry_of_many():
    x = np.linspace(0.1, 1, 600)

    def backward(x, d):
        return d[0] + d[1] * (x + (np.arange(600) == 123))

    report = examine(lambda x: (x, x * x / 2), backward=backward, inputs=[x], max_entries=4)
    assert report.worst.index == (123,)
    assert "the output y[1] " in report.cause


def test_lists_and_dicts_and_what_has_no_gradient():
    def largest(x):
        return {"value": x.max(axis=-1), "index": x.argmax(axis=-1), "none": None, "parts": [x**2, (x.sum(),)]}

    def backward(x, d_y):
        assert d_y["index"] is d_y["none"] is None
        d_square, (d_sum,) = d_y["parts"]
        chosen = np.arange(5) == x.argmax(axis=-1)[:, None]
        return np.where(chosen, d_y["value"][:, None], 0) + 2 * x * d_square + d_sum

    report = check(largest, backward=backward, inputs=[X])
    assert str(report).endswith("  without a gradient: y['index'] (int64), y['none'] (None)")


def test_a_single_output_in_a_list():
    assert check(lambda x: [x * x], backward=lambda x, d_y: 2 * x * d_y[0], inputs=[X]).verdict == "right"


def test_inputs_may_be_structures_too():
    def layer(parameters, x):
        return x @ parameters["w"] + parameters["b"]

    def backward(parameters, x, d_y):
        return {"b": d_y.sum(axis=0), "w": x.T @ d_y}, d_y @ parameters["w"].T

    parameters = {"w": RNG.normal(size=(5, 2)), "b": RNG.normal(size=2), "name": "first"}

    def named(*arguments):
        d_parameters, d_x = backward(*arguments)
        return {**d_parameters, "name": None}, d_x

    report = check(layer, backward=named, inputs=[parameters, X])
    assert [record.name for record in report.inputs] == ["parameters['w']", "parameters['b']", "x"]
    with pytest.raises(CheckError, match=r"gradient of parameters: found dict of 2; return what has .*\['name'\]"):
        check(layer, backward=backward, inputs=[parameters, X])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_large_output_does_not_hide_a_small_one(dtype):
    large, small = dtype(1e9), dtype(1e-3)

    def backward(factor):
        return lambda x, d: large * d[0] + dtype(factor) * small * d[1]

    inputs = [X.astype(dtype)]
    assert examine(lambda x: (large * x, small * x), backward=backward(1), inputs=inputs).verdict == "right"
    report = examine(lambda x: (large * x, small * x), backward=backward(2), inputs=inputs)
    assert report.verdict == "wrong"
    assert re.search(r"the output y\[1\] .*2 times", report.cause)


def test_the_gradient_of_the_output_has_its_structure():
    given = []

    def backward(x, w, d):
        given.append(d)
        return norm_backward(x, w, d)

    d_mean = np.array([1.0, 2.0, 3.0])
    check(norm, backward=backward, inputs=[X, W], d_output=(None, d_mean))
    assert isinstance(given[0], Norm)
    assert not given[0].y.any()
    np.testing.assert_array_equal(given[0].mean, d_mean)
    with pytest.raises(ValueError, match=r"d_output.mean has shape \(2,\)"):
        check(norm, backward=norm_backward, inputs=[X, W], d_output=(X, np.ones(2)))


def test_a_backward_pass_that_does_not_bear_zeros():
    def backward(x, d):
        return 2 * d[0] + x * d[1] * (d[1] / d[1])

    report = examine(lambda x: (x, x * x), backward=backward, inputs=[X])
    assert report.verdict == "wrong"
    assert "comes from" not in report.cause


def test_tensors():
    assert check(lambda x: (mt.tanh(x), {"sum": x.sum(), "n": np.arange(2)}), inputs=[X]).verdict == "right"
    assert check(lambda p: (None, p["x"] * p["w"]), inputs=[{"x": X, "w": W}]).verdict == "right"


def test_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)
    report = check(lambda x: torch.max(x, dim=1), inputs=[x])
    assert report.constants == ["y.indices (int64)"]
    assert check(lambda x: (x.sin(), x.detach() * 0 + 1, 2.0), inputs=[x]).verdict == "right"
    report = examine(lambda x: {"a": x.sin(), "b": x.detach().cos()}, inputs=[x])
    assert re.search(r"y\['b'\] .*ignores", report.cause)
