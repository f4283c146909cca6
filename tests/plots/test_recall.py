"""The pictures of recall and extrapolation, from results that are made up."""

import numpy as np
import pytest
from made_up import EXTRAPOLATION, REACHES, RECALL, N
from matplotlib.figure import Figure

from minitransformer.apps.plots import extrapolation_picture, recall_picture, save
from minitransformer.apps.plots.recall import SPREAD, WINDOW, draw_extrapolation, draw_recall


def test_lines_and_reaches():
    axes = Figure().add_subplot()
    draw_recall(axes, RECALL)
    lines = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    assert lines.keys() == REACHES.keys()
    for line, band, up in zip(lines.values(), axes.collections, SPREAD, strict=True):
        corners = band.get_paths()[0].vertices
        for distance in (1, 8, 9):
            ends = corners[corners[:, 0] == distance, 1]
            assert (ends.min(), ends.max()) == pytest.approx((1 / (distance + 1) + up, 1 / distance + up))
        assert line.get_xdata().tolist() == [1, 8, 9]
        assert line.get_ydata() == pytest.approx([3 / 4 + up, 17 / 144 + up, 19 / 180 + up])
    across = [line.get_ydata() for line in axes.lines if line.get_linestyle() == ":" and line.get_label()[0] == "_"]
    assert [0.125, 0.125] in [list(y) for y in across]  # chance
    assert {"reach 15 ", "reach 8 ", " chance"} == {text.get_text() for text in axes.texts}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8"]  # 9 has no room


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_no_window_is_half_inside_the_length_of_training(positions):
    axes = Figure().add_subplot()
    draw_extrapolation(axes, EXTRAPOLATION, positions)
    assert axes.get_title(loc="left").split()[0] == positions
    for line, up in zip(axes.lines, SPREAD, strict=False):
        at, accuracy = line.get_xdata(), line.get_ydata()
        assert np.diff(at) == pytest.approx(WINDOW)
        assert accuracy == pytest.approx(np.where(at < N, 1.0, 0.25) + up)


@pytest.mark.parametrize(("picture", "result"), [(recall_picture, RECALL), (extrapolation_picture, EXTRAPOLATION)])
def test_a_png_is_written(tmp_path, picture, result):
    save(picture(result), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
