"""Inputs of many entries: some entries at random, directions, and halving."""

import numpy as np
import pytest
from check_cases import verdict


def test_of_many_entries_a_single_wrong_one_is_found_by_halving():
    x = np.random.default_rng(1).normal(size=(40, 50))

    def backward(x, d_y):
        d_x = np.cos(x) * d_y
        d_x[17, 23] += 0.5
        return d_x

    report = verdict(np.sin, backward, x, max_entries=4)
    assert report.verdict == "wrong"
    assert report.worst.index == (17, 23)
    assert verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=4).inputs[0].directions == 8


@pytest.mark.parametrize("times", [1.0, 100.0])
def test_the_report_states_which_single_wrong_entry_of_many_is_certain_to_be_found(times):
    x = np.random.default_rng(1).normal(size=5000)
    record = verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=4).inputs[0]
    assert 0 < record.certain < 3 * 5000**0.5 * 1e-8 * 10
    assert f"found if it is off by {record.certain:.1e} or more; one that is off by less" in str(record)
    assert "with a probability of at least 0.0008" in str(record)
    for wrong in (0, 1234, 4999):

        def backward(x, d_y, wrong=wrong):
            return np.cos(x) * d_y + times * record.certain * (np.arange(5000) == wrong)

        for seed in range(3):
            assert verdict(np.sin, backward, x, max_entries=4, seed=seed).verdict == "wrong"


def test_directions_that_leave_the_domain_leave_the_gradient_undecided():
    report = verdict(lambda x: x**1.5, lambda x, d_y: 1.5 * np.sqrt(x) * d_y, [0.0, 1.0, 2.0], max_entries=0)
    assert report.verdict == "undecided"
