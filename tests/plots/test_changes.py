"""The picture of the changes since the paper, from results that are made up."""

import pytest
from made_up import CHANGES
from matplotlib.figure import Figure

from minitransformer.apps.plots import changes_picture, save
from minitransformer.apps.plots.changes import COLOURS, MARGIN, MARKERS, draw_changes


def test_rows_intervals_and_colours():
    axes = Figure().add_subplot()
    draw_changes(axes, CHANGES)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pre-norm", "GELU", "ALiBi"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is on top
    intervals = [line for line in axes.lines if line.get_linewidth() == 2.2]
    assert [list(line.get_xdata()) for line in intervals] == [[0.3, 0.7], [1.1, 2.5], [1.5, 50]]
    assert [line.get_color() for line in intervals] == [COLOURS[-1], COLOURS[0], COLOURS[1]]
    means = [line for line in axes.lines if line.get_marker() in MARKERS.values() and line.get_zorder() == 4]
    assert [(line.get_xdata()[0], line.get_marker()) for line in means] == [
        (0.4, MARKERS[-1]), (1.2, MARKERS[0]), (2, MARKERS[1]),
    ]  # fmt: skip
    margin = 16**MARGIN  # the seeds are from 1/4 to 4
    assert axes.get_xlim() == pytest.approx((0.25 / margin, 4 * margin))
    (arrow,) = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert (arrow.get_marker(), arrow.get_ydata()[0]) == (">", 2)  # 50 is outside
    assert arrow.get_xdata()[0] == pytest.approx(4 * margin)
    assert "a multiple of the base (2.000)" in axes.get_xlabel()


def test_a_png_is_written(tmp_path):
    save(changes_picture(CHANGES), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
