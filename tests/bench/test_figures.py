"""Medians, ratios and slopes, from times that are made up."""

import pytest

from minitransformer.apps.bench.figures import fit_powers, median_of_all, ratio, slope


def test_the_median_is_over_all_steps():
    assert median_of_all([[1.0, 2.0], [3.0, 4.0, 5.0]]) == 3.0


def test_the_ratio_is_the_median_over_rounds():
    # The second round was noisy for both, so its ratio is none the worse for it.
    found = ratio([[2.0, 2.0, 9.0], [40.0], [3.0]], [[1.0], [20.0, 20.0], [1.0, 1.0]])
    assert found.rounds == [2.0, 2.0, 3.0]
    assert (found.median, found.least, found.most) == (2.0, 2.0, 3.0)


def test_the_slope_is_that_of_the_last_points():
    x = [1, 2, 4, 8, 16]
    assert slope(x, [5, 5, 16, 64, 256]) == pytest.approx(2)
    assert slope(x, [3 * v for v in x], last=5) == pytest.approx(1)
    assert slope([1], [1]) is None


def test_a_product_of_powers_is_found():
    points = [{"n": n, "d": d, "cost": 3 * n**2 / d} for n in (2, 4, 8) for d in (3, 5)]
    assert fit_powers(points, ["n", "d"], "cost") == pytest.approx({"n": 2, "d": -1})
