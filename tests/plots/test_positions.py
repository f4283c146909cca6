"""The picture of kinds of positions, from results that are made up."""

import numpy as np
import pytest
from made_up import POSITIONS, SEEDS, TASK
from matplotlib.figure import Figure

from minitransformer.apps.plots import positions_picture
from minitransformer.apps.plots.recall import LINES, SHIFT, draw_positions


@pytest.mark.parametrize(("what", "means"), [("accuracy", [1.0, 0.4]), ("weight", [0.8, 0.2])])
def test_lines_are_means_within_the_range_of_the_seeds(what, means):
    axes = Figure().add_subplot()
    draw_positions(axes, POSITIONS, "one", what)
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == ["sinusoidal", "learned", "rotary", "ALiBi", "no positions"]
    chance = [list(line.get_ydata()) for line in axes.lines if line.get_label().startswith("_")]
    assert chance == ([[0.25, 0.25]] if what == "accuracy" else [])
    assert len({line.get_color() for line in lines}) == len(LINES) == 5
    for i, (line, band) in enumerate(zip(lines, axes.collections, strict=True)):
        np.testing.assert_allclose(line.get_ydata(), np.array(means) + i * SHIFT)
        low, high = band.get_paths()[0].get_extents().intervaly
        values = [one[what] for one in SEEDS]
        assert (low, high) == pytest.approx((np.min(values) + i * SHIFT, np.max(values) + i * SHIFT))
        assert axes.get_ylim()[0] < low < high <= 1


def test_one_seed_has_no_range():
    axes = Figure().add_subplot()
    draw_positions(axes, POSITIONS | {"tasks": {"one": TASK | {"kinds": {"none": SEEDS[:1]}}}}, "one", "accuracy")
    assert not axes.collections
    assert axes.lines[0].get_ydata().tolist() == [1.0, 0.5]


def test_each_task_has_a_column():
    figure = positions_picture(POSITIONS)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert titles == ["a task", "a task", "", ""]
    assert labels == ["accuracy at the end", "", "weight on the answer", ""]
