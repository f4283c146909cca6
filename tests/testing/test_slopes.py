"""How a slope is measured: against polynomials, whose differences can be written down, and at kinks."""

import numpy as np
import pytest

from minitransformer.testing.between_steps import settle
from minitransformer.testing.measured_slope import Slope, relative_error
from minitransformer.testing.noise import scatter_of
from minitransformer.testing.slopes import measure
from minitransformer.testing.steps import take_step

STEP = np.finfo(float).eps ** 0.2


def polynomial(t):
    return 3 + 2 * t + t**3 + 5 * t**4 + t**5, 1.0


def test_one_step_tells_what_the_formulas_say():
    h = 0.5
    step = take_step(polynomial, 3.0, h)
    assert step.central == pytest.approx(2 + h**2 + h**4)
    assert step.slope == pytest.approx(2 - h**4 / 4)  # Richardson's extrapolation removes h²
    assert step.truncation == pytest.approx(abs(-(h**4) / 4 - (h**2 / 4 + h**4 / 16)))
    assert step.noise == pytest.approx(5 * 1.5 * h**4)  # the fourth difference: only t⁴ is left
    assert step.rounding == 8 * np.finfo(float).eps / h
    half = h / 2
    rise = half**2 + half**4
    assert step.left == pytest.approx(2 + rise - 5 * half**3)
    assert step.right == pytest.approx(2 + rise + 5 * half**3)
    assert step.jump == pytest.approx(10 * half**3)


def test_steps_are_powers_of_two():
    seen = []

    def loss(t):
        seen.append(abs(t))
        return 2 * t + t**3, 1.0

    measure(loss, 0.0, STEP, 2.0, 1e-7)
    assert all(np.frexp(t)[0] == 0.5 for t in seen)
    assert 0.5 < max(seen) / STEP < 2


@pytest.mark.parametrize(("claimed", "right"), [(2.0005, True), (0.9995, True), (2.01, False), (0.99, False)])
def test_a_claim_may_lie_outside_a_kink_by_the_error_of_the_slopes(claimed, right):
    assert (Slope(1.5, 1e-3, (1.0, 2.0)).disagreement(claimed, 1e-7) <= 1e-7) == right


def test_a_relative_error_is_held_against_the_larger_number_or_the_floor():
    found = relative_error(np.array([1.0, 3.0, 1e-9, 0.0]), np.array([2.0, 1.0, 0.0, 0.0]), 1e-3)
    np.testing.assert_allclose(found, [0.5, 2 / 3, 1e-6, 0])


@pytest.mark.parametrize(("times", "error"), [(32, np.inf), (8, 4.0)])
def test_what_scatters_less_than_64_of_the_smallest_steps_may_turn_between_them(times, error):
    """L is 0 at the ends of all steps, and scatters elsewhere; 64 of the smallest steps are 1/16."""

    def loss(t):
        return float(abs(t) not in (0, 1, 1 / 2, 2**-10, 2**-11)), 1.0

    steps, scatter = [take_step(loss, 0.0, h) for h in (1.0, 2**-10)], scatter_of(loss, 1.0)
    found = settle(loss, steps, times * scatter, 1e-8, 0.0, np.finfo(float).eps, 1.0)
    assert (found.h, found.error) == (1.0, pytest.approx(error * scatter))


def test_two_steps_that_disagree_refute_nothing():
    slope = measure(lambda t: (t + 1e-7 * np.tanh(1e6 * t), 1.0), 0.0, STEP, 1.1, 1e-7, smooth=True)
    assert slope.disagreement(1.1, 1e-7) <= 1e-7


def test_what_rounding_hides_refutes_nothing():
    slope = measure(lambda t: (np.log(1 + (1e-17 + t)), 1e-17), 0.0, 1e-17, 1.0, 1e-7, smooth=True)
    assert slope.disagreement(1.0, 1e-7) <= 1e-7
