"""What holds for all pictures that the tests of this folder draw."""

import numpy as np
import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def whole_lines(monkeypatch):
    """Check, after each test, that no solid line in its pictures leaves its axes at the top or bottom."""
    figures, make = [], Figure.__init__

    def record(self, *args, **options):
        figures.append(self)
        make(self, *args, **options)

    monkeypatch.setattr(Figure, "__init__", record)
    yield
    for axes in [axes for figure in figures for axes in figure.axes]:
        low, high = sorted(axes.get_ylim())
        for line in axes.lines:
            if line.get_linestyle() == "-" and line.get_transform().contains_branch_seperately(axes.transData)[1]:
                y, room = line.get_xydata()[:, 1], 1e-6 * (high - low)
                outside = np.isfinite(y) & ((y < low - room) | (y > high + room))
                assert not outside.any(), f"{y[outside]} outside {low} to {high} of {axes.get_ylabel()}"
