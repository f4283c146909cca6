"""Welch's test agrees with published values, and finds what it says it would find."""

import pytest

from minitransformer.apps.measure.means import (
    compare_means,
    holm,
    mean_interval,
    median_of_all,
    ratio,
    t_probability,
    t_quantile,
)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 1, 12.7062), (0.975, 4, 2.77645), (0.8, 8, 0.88889), (0.975, 30, 2.04227), (0.95, 1000, 1.64638)],
)
def test_quantiles_are_those_of_the_tables(probability, freedom, value):
    assert t_quantile(probability, freedom) == pytest.approx(value, rel=1e-5)
    assert t_quantile(1 - probability, freedom) == pytest.approx(-value, rel=1e-5)
    assert t_probability(value, freedom) == pytest.approx(probability, abs=1e-6)


def test_a_worked_example():
    a, b = [1.0, 2.0, 3.0, 4.0], [2.0, 6.0, 10.0]  # variances 5/3 and 16
    found = compare_means(a, b)
    e2 = 5 / 12 + 16 / 3
    freedom = e2**2 / ((5 / 12) ** 2 / 3 + (16 / 3) ** 2 / 2)
    assert freedom == pytest.approx(2.31529, rel=1e-5)
    assert found.mean == 3.5
    reach = t_quantile(0.975, freedom) * e2**0.5
    assert (found.low, found.high) == pytest.approx((3.5 - reach, 3.5 + reach))
    assert found.p == pytest.approx(2 * t_probability(-3.5 / e2**0.5, freedom))
    assert found.detectable == pytest.approx(reach + t_quantile(0.8, freedom) * e2**0.5)
    other_way = compare_means(b, a)
    assert other_way.p == found.p
    assert (other_way.mean, other_way.low, other_way.high) == pytest.approx((-3.5, -found.high, -found.low))


def test_equal_numbers():
    assert compare_means([2.0, 2.0], [2.0, 2.0]) == (0, 0, 0, 1, 0)
    assert compare_means([2.0, 2.0], [3.0, 3.0]) == (1, 1, 1, 0, 0)


def test_one_number_has_no_variance():
    with pytest.raises(ValueError, match="found samples of sizes 2 and 1, expected at least 2"):
        compare_means([1.0, 2.0], [3.0])


def test_the_interval_of_one_mean():
    reach = 4.302653 * 0.1 / 3**0.5  # t with 2 degrees of freedom; the standard deviation is 0.1
    found = mean_interval([0.2, 0.1, 0.3])
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.2 - reach, 0.2 + reach))
    assert found.p == pytest.approx(0.0741799)  # t = 2 √3
    assert mean_interval([0.1, 0.1])[1:] == (0.1, 0.1, 0, 0)
    assert mean_interval([0.0, 0.0]).p == 1
    narrow = mean_interval([0.2, 0.1, 0.3], level=0.8)
    assert narrow.high - narrow.mean == pytest.approx(reach * 1.885618 / 4.302653)
    with pytest.raises(ValueError, match="found a sample of size 1, expected at least 2"):
        mean_interval([1.0])


def test_p_is_corrected_for_the_number_of_comparisons():
    assert holm([0.04, 0.01, 0.5, 0.03]) == pytest.approx([0.09, 0.04, 0.5, 0.09])  # Holm's procedure, by hand
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def test_the_median_is_over_all_steps():
    assert median_of_all([[1.0, 2.0], [3.0, 4.0, 5.0]]) == 3.0


def test_the_ratio_is_the_median_over_rounds():
    # The second round was noisy for both, so its ratio is none the worse for it.
    found = ratio([[2.0, 2.0, 9.0], [40.0], [3.0]], [[1.0], [20.0, 20.0], [1.0, 1.0]])
    assert found.rounds == [2.0, 2.0, 3.0]
    assert (found.median, found.least, found.most) == (2.0, 2.0, 3.0)
