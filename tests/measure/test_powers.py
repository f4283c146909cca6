"""Slopes and powers, from times that are made up."""

import pytest

from minitransformer.apps.measure.powers import fit_powers, slope


def test_the_slope_is_that_of_the_last_points():
    x = [1, 2, 4, 8, 16]
    assert slope(x, [5, 5, 16, 64, 256]) == pytest.approx(2)
    assert slope(x, [3 * v for v in x], last=5) == pytest.approx(1)
    assert slope([1], [1]) is None


def test_a_product_of_powers_is_found():
    points = [{"n": n, "d": d, "cost": 3 * n**2 / d} for n in (2, 4, 8) for d in (3, 5)]
    assert fit_powers(points, ["n", "d"], "cost") == pytest.approx({"n": 2, "d": -1})
