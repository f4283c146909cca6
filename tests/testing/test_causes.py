"""The guess at the cause of a wrong result: each pattern is named, and what has none is left without a guess."""

import numpy as np
import pytest

from minitransformer.testing.causes import likely_cause

RIGHT = np.random.default_rng(0).uniform(0.5, 2.0, (3, 4)) * np.where(np.arange(4) % 2, 1, -1)
WITH_ZEROS = np.where(np.arange(4) == 1, 0.0, RIGHT)
SQUARE = RIGHT[:, :3]


BROADCAST = (
    "a sum is missing: the input was broadcast along axis {} of your result, so its gradient is the sum over that axis"
)
ALONG = "every entry along axis {} is off by the same amount: is a sum over that axis missing?"
INFINITE = "the result is not finite: there are infinities, as an overflow or a division by 0 gives"
OFF = "every entry is 1.5 times what it should be: a factor is missing, or there is one too many"


def one(array, value):
    array = array.copy()
    array[1, 2] = value
    return array


@pytest.mark.parametrize(
    ("found", "expected", "cause"),
    [
        (one(RIGHT, np.nan), RIGHT, "the result is not finite: there are NaNs, as 0/0, inf - inf or 0 * inf gives"),
        (one(RIGHT, np.inf), RIGHT, INFINITE),
        (SQUARE.T, SQUARE, "the result is transposed"),
        (RIGHT.T, RIGHT, "the result is transposed"),
        (RIGHT, RIGHT.sum(axis=0), BROADCAST.format(0)),
        (RIGHT, RIGHT.sum(axis=1, keepdims=True), BROADCAST.format(1) + ", with keepdims=True"),
        (RIGHT.sum(axis=0), RIGHT, "there is a sum over axis 0 of the expected result that does not belong there"),
        (RIGHT.sum(axis=1), RIGHT, "there is a sum over axis 1 of the expected result that does not belong there"),
        (0 * RIGHT, RIGHT, "the result is zero everywhere: is the input used, and the result returned?"),
        (-RIGHT, RIGHT, "the sign is wrong"),
        (5 * RIGHT, RIGHT, "every entry is D = 5 times too large"),
        (RIGHT / 5, RIGHT, "every entry is D = 5 times too small"),
        (5**0.5 * RIGHT, RIGHT, "every entry is sqrt(D) = 2.236 times too large"),
        (RIGHT / 5**0.5, RIGHT, "every entry is sqrt(D) = 2.236 times too small"),
        (1.5 * RIGHT, RIGHT, OFF),
        (np.append(1.5 * RIGHT, 3e-9), np.append(RIGHT, 1e-9), OFF),
        (np.append(3e-9, 1.5 * RIGHT), np.append(1e-9, RIGHT), OFF),
        (one(RIGHT, 0), RIGHT, "1 entry is zero that should not be; the others are right"),
        (WITH_ZEROS, RIGHT, "3 entries are zero that should not be; the others are right"),
        (RIGHT, WITH_ZEROS, "3 entries should be exactly zero; the others are right"),
        (RIGHT, one(RIGHT, 0), "1 entry should be exactly zero; the others are right"),
        (RIGHT + np.arange(1, 4)[:, None], RIGHT, ALONG.format(1)),
        (RIGHT + np.arange(1, 5), RIGHT, ALONG.format(0)),
        (RIGHT + 0.3, RIGHT, ""),  # by the same amount everywhere: no sum explains it
        (np.ones((3, 4)), np.arange(3.0)[:, None] * np.ones(4), ""),  # along axis 1 too, where nothing varies
        (RIGHT * (1 + 5e-5), RIGHT, ""),  # no pattern: a slight error
        (RIGHT * np.linspace(1.05, 1.1, 4), RIGHT, ""),
        (RIGHT, RIGHT, ""),
        (RIGHT[0], RIGHT, ""),
        (np.array(2.0), np.array(1.0), ""),  # one number is no pattern
    ],
)
def test_patterns(found, expected, cause):
    """Also in numbers of few digits, with a tolerance for them."""
    assert likely_cause(found, expected, sizes={"D": 5}, subject="the result") == cause
    slight = 1 + 1e-3 * np.resize([1, 0, -1, 0, 0], found.shape)
    said = likely_cause(found * slight, expected, sizes={"D": 5}, subject="the result", tolerance=1e-2)
    assert said == cause or not cause


def test_a_known_mistake_comes_before_patterns():
    mistakes = {"the factor is forgotten": 3 * RIGHT, "the factor is used twice": 2 * RIGHT}
    assert likely_cause(2 * RIGHT, RIGHT, mistakes) == "the factor is used twice"
    assert "4 times" in likely_cause(4 * RIGHT, RIGHT, mistakes)
    assert likely_cause(RIGHT, RIGHT, {"none": RIGHT}) == ""  # right results have no cause
