"""Arrays as JSON: statistics, and windows of bounded size."""

import base64
import re

import numpy as np
import pytest
from toml_cases import cases_from_toml, told

from minitransformer.apps.explorer import growth, numbers
from minitransformer.apps.explorer.numbers import statistics, window


def values(answer):
    return np.frombuffer(base64.b64decode(answer["values"]), dtype="<f4")


def test_statistics_are_those_of_the_finite_entries():
    x = np.random.default_rng(0).normal(3.0, 2.0, (4, 5))
    found = statistics(x)
    wanted = {"mean": x.mean(), "spread": x.std(), "least": x.min(), "most": x.max(), "norm": np.linalg.norm(x)}
    assert found == pytest.approx(wanted)
    assert statistics(np.append(x, [np.nan, np.inf, -np.inf])) == pytest.approx(wanted)
    assert statistics(np.array([np.nan])) == dict.fromkeys(wanted)
    assert statistics(np.zeros((0, 3))) == dict.fromkeys(wanted, 0.0)
    assert statistics(np.array([True, False]))["mean"] == 0.5
    beyond = {"mean": 0.0, "spread": None, "least": -1e300, "most": 1e300, "norm": None}
    assert statistics(np.array([1e300, -1e300])) == beyond
    assert statistics(np.array([1.7e308, 1.7e308]))["mean"] is None


def test_statistics_of_a_long_array_are_those_of_its_blocks(monkeypatch):
    x = np.random.default_rng(0).normal(3e3, 2.0, (40, 50))
    x[:3] = np.nan
    expected = statistics(x)
    monkeypatch.setattr("minitransformer.apps.explorer.numbers.BLOCK", 64)
    assert statistics(x) == pytest.approx(expected, rel=1e-12)
    assert statistics(x.T) == pytest.approx(expected, rel=1e-12)
    assert statistics(np.zeros((0, 3)))["mean"] == 0
    assert statistics(np.full(200, np.inf))["mean"] is None


def test_a_window_is_a_part_of_the_last_two_axes():
    x = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
    found = window(x, (1, 2), (1, 4), (2, 7))
    np.testing.assert_array_equal(values(found), x[1, 2, 1:4, 2:7].ravel())
    assert (found["shape"], found["rows"], found["columns"]) == ([2, 3, 5, 7], [1, 4], [2, 7])
    assert (found["least"], found["most"]) == (0, x.size - 1)
    np.testing.assert_array_equal(values(window(x, (1,), stride=(2, 3))), x[1, 0, ::2, ::3].ravel())


@pytest.mark.parametrize("x", [np.array(2.5), np.array([1.0, 2.5]), np.zeros((0, 3)), np.array([[True], [False]])])
def test_any_shape_is_a_picture(x):
    found = window(x)
    np.testing.assert_array_equal(values(found), x.ravel())
    assert found["shape"] == list(x.shape)


@cases_from_toml
def test_windows_that_do_not_exist(call, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        eval(call, dict(vars(numbers)))


@cases_from_toml
def test_a_call_has_its_answer(call, said):
    assert told(call, vars(numbers) | vars(growth)) == said
