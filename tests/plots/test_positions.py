"""The picture of kinds of positions, from results that are made up."""

from made_up import POSITIONS, SEEDS
from matplotlib.figure import Figure

from minitransformer.apps.plots.recall import draw_positions


def test_one_seed_has_no_range():
    axes = Figure().add_subplot()
    draw_positions(
        axes,
        POSITIONS | {"tasks": {"one": POSITIONS["tasks"]["one"] | {"kinds": {"none": SEEDS[:1]}}}},
        "one",
        "accuracy",
    )
    assert not axes.collections
    assert axes.lines[0].get_ydata().tolist() == [1.0, 0.5]
