"""The learning rate of section 5.3."""

import math

import numpy as np
import pytest

import minitransformer as mt


def test_the_formula():
    for step, d_model, warmup_steps in [
        (1, 512, 4000),
        (100, 512, 4000),
        (4000, 512, 4000),
        (100_000, 512, 4000),
        (7, 3, 5),
    ]:
        expected = min(1 / math.sqrt(step), step / math.sqrt(warmup_steps) ** 3) / math.sqrt(d_model)
        assert mt.optim.warmup(step, d_model, warmup_steps) == pytest.approx(expected, rel=1e-14)


def test_known_values():
    # 512^-0.5 · 4000^-0.5 at the peak of the base model
    assert mt.optim.warmup(4000, 512, 4000) == pytest.approx(6.98771e-4, rel=1e-6)
    assert mt.optim.warmup(1, 512, 4000) == pytest.approx(1.74693e-7, rel=1e-5)
    assert mt.optim.warmup(16_000, 512, 4000) == pytest.approx(3.49386e-4, rel=1e-5)
    assert mt.optim.warmup(1, 1, 1) == 1


@pytest.mark.parametrize("warmup_steps", [1, 7, 400])
def test_the_peak_is_where_the_warmup_ends(warmup_steps):
    rates = [mt.optim.warmup(step, 64, warmup_steps) for step in range(1, 4 * warmup_steps + 1)]
    assert rates.index(max(rates)) + 1 == warmup_steps
    rise, fall = rates[:warmup_steps], rates[warmup_steps - 1 :]
    assert all(r == pytest.approx(rise[0] * (i + 1), rel=1e-14) for i, r in enumerate(rise))
    assert fall == sorted(fall, reverse=True)
    assert rates[4 * warmup_steps - 1] == pytest.approx(max(rates) / 2, rel=1e-14)
    assert all(isinstance(rate, float) for rate in rates)


@pytest.mark.parametrize(
    ("schedule", "arguments"),
    [
        *((mt.optim.warmup, wrong) for wrong in ((0, 512, 40), (-1, 512, 40), (1, 0, 40), (1, 512, 0), (1, -2, 3))),
        *((mt.optim.inverse_square_root, wrong) for wrong in ((0, 1.0, 5), (1, 0.0, 5), (1, math.nan, 5), (1, 1.0, 0))),
        *((mt.optim.linear_decay, wrong) for wrong in ((0, 1.0, 2, 5), (6, 1.0, 2, 5), (1, 0.0, 2, 5))),
        *((mt.optim.linear_decay, wrong) for wrong in ((1, math.nan, 2, 5), (1, 1.0, 0, 5), (1, 1.0, 6, 5))),
    ],
)
def test_arguments_out_of_range_are_refused(schedule, arguments):
    with pytest.raises(ValueError, match="found") as error:
        schedule(*arguments)
    assert all(str(one) in str(error.value) for one in arguments)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.005 / 2000), (1000, 0.0025), (2000, 0.005), (8000, 0.0025)])
def test_the_inverse_square_root_peaks_where_it_is_told(step, rate):
    assert mt.optim.inverse_square_root(step, 0.005, 2000) == pytest.approx(rate, rel=1e-14)
    assert mt.optim.inverse_square_root(1, rate, 1) == rate


@pytest.mark.parametrize("step", [1, 77, 400, 401, 9999])
def test_both_schedules_are_one_course(step):
    found = mt.optim.inverse_square_root(step, (64 * 400) ** -0.5, 400)
    assert found == pytest.approx(mt.optim.warmup(step, 64, 400), rel=1e-14)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.25), (4, 1.0), (5, 5 / 6), (7, 0.5), (9, 1 / 6)])
def test_the_linear_rate_rises_and_falls(step, rate):
    assert mt.optim.linear_decay(step, 3e-3, 4, 9) == pytest.approx(3e-3 * rate, rel=1e-14)


@pytest.mark.parametrize("warmup_steps", [1, 5, 12])
def test_the_linear_rate_peaks_once_and_would_end_at_zero(warmup_steps):
    rates = [mt.optim.linear_decay(step, 0.7, warmup_steps, 12) for step in range(1, 13)]
    top = rates.index(0.7)
    assert top + 1 == warmup_steps
    np.testing.assert_allclose(np.diff([0.0, *rates[: top + 1]]), 0.7 / warmup_steps, rtol=1e-12)
    np.testing.assert_allclose(np.diff([*rates[top:], 0.0]), -0.7 / (13 - warmup_steps), rtol=1e-12)
