"""What a verdict says in figures, read from its text and computed again from what was compared."""

import re
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

from minitransformer.apps.learn import verdict
from minitransformer.apps.learn.description import LARGEST_GRID
from minitransformer.apps.learn.verdict import Wrong

COMPARED = verdict.Comparison


@contextmanager
def comparisons():
    """Collect what checks compare."""
    found = []

    def note(*args, **options):
        found.append(COMPARED(*args, **options))
        return found[-1]

    with patch.object(verdict, "Comparison", note):
        yield found


def wrong_entries(one):
    """Return which entries of a result are clearly wrong, and which may be."""
    found, expected = np.asarray(one.found), np.asarray(one.expected)
    if expected.dtype.kind != "f":
        return found != expected, found != expected
    finite = np.isfinite(expected)
    largest = np.abs(expected[finite]).max(initial=0.0) or 1.0
    with np.errstate(all="ignore"):
        error = np.where(finite, np.abs(found - expected) / largest, np.where(found == expected, 0.0, np.inf))
    coarse = 2e-3 if found.dtype.itemsize < 8 and found.dtype.kind == "f" else 2e-7
    return ~(error <= 10 * coarse), ~(error < 1e-12)


def check_figures(text, one):
    """Check the figures in the text of a verdict on one comparison: shapes, counts, the worst entry, the grid."""
    found, expected = np.asarray(one.found), np.asarray(one.expected)
    assert one.name in " ".join(text.split()) or len(one.name) > 70
    if found.shape != expected.shape:
        assert re.search(r"^  found +(.*)$", text, re.M)[1] == str(found.shape)
        assert re.search(r"^  expected +(.*)$", text, re.M)[1] == (str(expected.shape) if expected.ndim else "a number")
        return
    surely, perhaps = wrong_entries(one)
    if expected.ndim:
        assert re.search(r"^  shape +(\(.*\)), as it should be$", text, re.M)[1] == str(expected.shape)
        n, size = map(int, re.search(r"^  entries +(\d+) of (\d+) are wrong$", text, re.M).groups())
        assert size == expected.size
        assert surely.sum() <= n <= perhaps.sum()
        place, *numbers = re.search(r"^  worst +at \[(.*)\]: found (\S+), should be (\S+)$", text, re.M).groups()
        place = tuple(map(int, place.split(", ")))
        grid = [line.split() for line in re.findall(r"^ {6}((?:[.x] ?)+?)(?: {8}\. right   x wrong)?$", text, re.M)]
        check_grid(grid, surely, perhaps)
    else:
        place, numbers = (), re.search(r"^  number +found (\S+), should be (\S+)$", text, re.M).groups()
    assert perhaps[place]
    with np.errstate(all="ignore"):
        badness = np.where(perhaps, np.abs(found.astype(float) - expected.astype(float)), -1.0)
    badness[~np.isfinite(badness)] = np.inf
    assert badness[place] >= badness.max() * (1 - 1e-5)
    assert numbers[0] != numbers[1]
    for shown, value in zip(numbers, (found[place], expected[place]), strict=True):
        number = {"True": 1.0, "False": 0.0}.get(shown)
        assert float(shown if number is None else number) == pytest.approx(float(value), rel=1e-5, nan_ok=True)


def check_grid(grid, surely, perhaps):
    """Check the drawing of the last two axes; of more, those with a wrong entry at some place of the others."""
    rows, columns = np.atleast_2d(np.ones(perhaps.shape[-2:])).shape
    if perhaps.size < 2 or max(rows, columns) > LARGEST_GRID:
        assert grid == []
        return
    drawn = np.array(grid) == "x"
    assert drawn.shape == (rows, columns)
    planes = zip(surely.reshape(-1, rows, columns), perhaps.reshape(-1, rows, columns), strict=True)
    assert drawn.any()
    assert any((sure <= drawn).all() and (drawn <= may).all() for sure, may in planes)


def words_of(call):
    """Return what is wrong with the result of a call."""
    with pytest.raises(Wrong) as wrong:
        call()
    return str(wrong.value)
