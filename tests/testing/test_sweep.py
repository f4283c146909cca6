"""The sweep over step sizes shows the theory of finite differences."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.testing.examples import EXAMPLES
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
    wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (1.001 * 2 * x * d_y,), name="square")
    found = sweep(wrong, [np.array([1.0, -2.0, 0.5])])
    assert found.extrapolated.min() > 9e-4


def test_an_input_that_cannot_move_is_refused():
    with pytest.raises(ValueError, match="there is nothing to move"):
        sweep(mt.exp, [np.zeros((0, 3))])
