"""The sweep over step sizes shows the theory of finite differences."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray
from minitransformer.testing.examples import EXAMPLES, examples
from minitransformer.testing.sweep import sweep


def test_entries_are_those_of_operations():
    assert EXAMPLES.keys() <= mt.ops.registry.keys()


def slope(steps, errors):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


def test_errors_fall_with_the_powers_of_theory():
    x = np.random.default_rng(0).normal(size=(3, 4))
    found = sweep(mt.tanh, [x], names=["x"], steps=np.logspace(-9, -0.5, 35))
    large = (found.steps > 1e-2) & (found.steps < 0.2)
    assert slope(found.steps[large], found.central[large]) == pytest.approx(2, abs=0.05)
    assert slope(found.steps[large], found.extrapolated[large]) == pytest.approx(4, abs=0.1)
    small = found.steps < 1e-6
    assert slope(found.steps[small], found.central[small]) == pytest.approx(-1, abs=0.25)
    assert found.central.min() < 1e-9
    assert found.extrapolated.min() < 1e-11 < found.extrapolated[0]
    assert 1e-4 < found.best_step < 1e-2
    assert found.worst_name == "x"
    assert len(found.worst_index) == 2


def test_a_wrong_gradient_has_no_good_step():
    factors = np.where(np.arange(80) < 40, 1, 1.001)
    for factor, least, most in ((asarray(factors), 3e-4, 1), (0, 1, 20)):
        wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y, f=factor: (f * 2 * x * d_y,), name="square")
        assert least < sweep(wrong, [np.linspace(1, 3, 80)]).extrapolated.min() < most


def test_steps_are_ascending_and_by_default_from_rounding_to_one():
    found = sweep(mt.tanh, [np.array([0.5])])
    np.testing.assert_allclose(found.steps, 10 ** (np.arange(-36, 1) / 3))
    assert sweep(mt.tanh, [np.array([0.5])], steps=[1e-2, 1e-4]).steps.tolist() == [1e-4, 1e-2]


def test_errors_are_relative_to_the_largest_gradient_and_the_worst_entry_is_that_of_the_extrapolation():
    """A cube's D(h) is off by h² everywhere, and R(h) is exact; the claim is off by 0.3 % of 3 x² for one entry."""
    right = np.array([3.0, 12.0, 0.75])
    wrong = right * [1, 1, 1.003]
    cubes = mt.Operation(lambda x: ((x**3).sum(keepdims=True), x), lambda x, d_y: (d_y * asarray(wrong),), name="cubes")
    found = sweep(cubes, [np.array([1.0, 2.0, 0.5])], steps=[0.5])
    assert found.worst_index == (2,)
    assert found.extrapolated[0] == pytest.approx(0.003 * 0.75 / 12)
    assert found.central[0] == pytest.approx(0.5**2 / 12)


def is_causal(a):
    return a.get("causal") or not np.triu(a["mask"], 1).any()


HOLDS = {
    "one row wholly": lambda a: (~a["mask"].any(axis=-1)).any() and a["mask"].any() and a["mask"][..., -1].any(),
    "masked": lambda a: not a["mask"].all(),
    "no mask": lambda a: a.get("mask") is None,
    "causal": is_causal,
    "in blocks of 3": lambda a: a["block_size"] == 3 < a.get("q", a.get("x")).shape[-2],
    "tied": lambda a: len(np.unique(a.get("x", a.get("logits")))) < a.get("x", a.get("logits")).size,
    "first axis": lambda a: a["axis"] == 0,
    "±10,000": lambda a: np.abs(a["x"]).min() > 9000,
    "self": lambda a: a["memory"] is None,
    "cross": lambda a: a["memory"].shape[-2] != a["x"].shape[-2],
    "rotated": lambda a: a["rotate"],
    "halves": lambda a: a.get("rotate", a.get("rotation")).layout == "halves",
    "biased": lambda a: a["bias"].ndim == 3,
    "random gain": lambda a: len(np.unique(a["gain"])) == 5,
    "far from 0": lambda a: a["x"].mean() > 90,
    "eps larger": lambda a: (a["eps"] > (a["x"] ** 2).mean(axis=-1)).any(),
    "1.702": lambda a: a["beta"] == 1.702,
    "position 40": lambda a: a["first"] == 40,
    "repeated ids": lambda a: len(np.unique(a["ids"])) < a["ids"].size,
    "p 0.3": lambda a: a["p"] == 0.3,
    "residual": lambda a: a["residual"].shape == a["x"].shape,
    "smoothed": lambda a: a["label_smoothing"] > 0,
    "padded": lambda a: (a["targets"] == a["ignore_index"]).any() and (a["targets"] != a["ignore_index"]).any(),
    "dilation 2": lambda a: a["dilation"] == 2,
    "longer than the sentence": lambda a: a["dilation"] * (len(a["weight"]) - 1) + 1 > a["x"].shape[1] > 0,
    "radius 2": lambda a: a["radius"] == 2,
    "radius 1": lambda a: a["radius"] == 1,
}


def test_the_examples_hold_what_their_names_say():
    said = set()
    for name in EXAMPLES:
        operation = mt.ops.registry[name]
        for example in examples(operation):
            arguments = dict(zip(operation.signature.parameters, example.inputs, strict=False)) | example.options
            words = [word for word in HOLDS if word in example.case]
            said.update(words)
            assert [word for word in words if not HOLDS[word](arguments)] == [], (name, example.case)
            sizes = [x.shape for x in example.inputs if hasattr(x, "shape")]
            assert len({*sum(sizes, ())}) > 1 or example.case == "by halves", name
    assert said == {*HOLDS}
    q, k, v = examples(mt.ops.scaled_dot_product_attention)[0].inputs
    assert len({*q.shape, k.shape[-2], v.shape[-1]}) == 6
    assert not np.array_equal(*(examples(mt.ops.softmax, seed)[0].inputs[0] for seed in (0, 1)))
