"""Numbers and names of pictures that are easy to draw wrongly: thinned names, lines of theory, means, units."""

import errno
import os
from copy import deepcopy

import made_up
import numpy as np
import pytest
from matplotlib.figure import Figure

from minitransformer.apps.plots import extrapolation_picture, speed_bars, table1_picture
from minitransformer.apps.plots.fonts import face_for
from minitransformer.apps.plots.heatmap import draw, name_columns, name_rows
from minitransformer.apps.plots.recall import SPREAD, draw_extrapolation, draw_recall
from minitransformer.apps.plots.saving import MOST_PIXELS, save
from minitransformer.apps.plots.step_sizes import steps_figure

LAYERS = ("self-attention", "recurrent", "convolutional", "restricted self-attention")


def test_where_names_are_thinned_out_each_stands_at_its_own_row_or_column():
    source, target = [f"source{i}" for i in range(40)], [f"target{i}" for i in range(30)]
    axes, face = Figure().add_subplot(), face_for(source)
    draw(axes, np.full((30, 40), 1 / 40))
    name_columns(axes, source, cell=0.05, size=6, face=face, rotation=90)
    name_rows(axes, target, cell=0.05, size=6, face=face)
    for ticks, labels, names in (
        (axes.get_xticks(), axes.get_xticklabels(), source),
        (axes.get_yticks(), axes.get_yticklabels(), target),
    ):
        assert 10 <= len(ticks) < len(names)
        assert [label.get_text() for label in labels] == [names[int(tick)] for tick in ticks]
        assert max(ticks) >= len(names) - 2


def test_bars_compare_programs_by_way_of_the_turns_that_they_shared():
    result = made_up.result(names=["toy"])
    programs = result["configurations"]["toy"]["programs"]
    for name, median, ratio in (("ours", 0.05, 1.0), ("eager", 0.06, 2.0)):
        programs[name] |= {"median": median, "times_ours": {"median": ratio}}
    time, _, _ = speed_bars(result).axes
    assert sorted(bar.get_height() for bar in time.patches) == pytest.approx([0.5, 1])


def test_we_are_the_measure_as_soon_as_pytorch_lacks_one_configuration():
    result = made_up.result()
    del result["configurations"]["small"]["programs"]["eager"]
    time, _, _ = speed_bars(result).axes
    assert "minitransformer = 1" in time.get_title(loc="left")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0345678, "34.6 ms"), (0.5, "500 ms"), (1.0, "1.00 s"), (2, "2.00 s")]
)
def test_times_have_units_that_suit_them(seconds, words):
    time, _, _ = speed_bars(made_up.result(names=["toy"], ours=seconds)).axes
    assert words in [text.get_text() for text in time.texts]


def recall(accuracy):
    points = [{"distance": d, "accuracy": [a / d for a in accuracy]} for d in (1, 2, 4)]
    return {
        "chance": 0.1,
        "distances": [1, 2, 4],
        "kinds": {name: {"reach": None, "points": points} for name in LAYERS},
    }


def test_recall_is_the_mean_of_the_seeds_within_the_band_of_all():
    accuracy = [0.5, 1.0, 0.3]
    axes = Figure().add_subplot()
    draw_recall(axes, recall(accuracy))
    for line, band, up in zip(axes.lines, axes.collections, SPREAD, strict=False):
        np.testing.assert_allclose(line.get_ydata(), [0.6 + up, 0.3 + up, 0.15 + up])
        low, high = band.get_paths()[0].get_extents().intervaly
        assert (low, high) == pytest.approx((0.3 / 4 + up, 1.0 + up))


def test_no_accuracy_is_drawn_above_one():
    """Lines that agree are drawn apart."""
    whole = {"points": [{"distance": d, "accuracy": [1.0, 1.0]} for d in (1, 2)], "reach": None}
    recall = {"distances": [1, 2], "chance": 0.1, "kinds": dict.fromkeys(LAYERS, whole)}
    positions = {"accuracy": [[1.0] * 60]}
    longer = extrapolation() | {"kinds": {name: {"learned": positions} for name in LAYERS}}
    left, right = Figure().subplots(1, 2)
    draw_recall(left, recall)
    draw_extrapolation(right, longer, "learned")
    for line in (*left.lines[:4], *right.lines[:4]):
        assert 0.9 < np.min(line.get_ydata()) <= np.max(line.get_ydata()) <= 1


def extrapolation():
    seeds = {"sinusoidal": [[1.0] * 60, [0.5] * 60], "learned": [[0.25] * 60, [0.25] * 60]}
    kinds = {name: {p: {"accuracy": several} for p, several in seeds.items()} for name in LAYERS}
    return {"chance": 0.1, "distance": 4, "times": 4, "sizes": {"n": 16}, "kinds": kinds}


def test_extrapolation_is_the_mean_of_the_seeds():
    axes = Figure().add_subplot()
    draw_extrapolation(axes, extrapolation(), "sinusoidal")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0.75 + SPREAD[0])


def test_sinusoidal_positions_stand_on_the_left():
    left, right = extrapolation_picture(extrapolation()).axes
    assert left.get_title(loc="left").startswith("sinusoidal")
    assert right.get_title(loc="left").startswith("learned")
    assert left.lines[0].get_ydata()[0] > right.lines[0].get_ydata()[0]


def test_a_picture_as_svg_is_the_same_file_each_time(tmp_path):
    for name in ("one.svg", "two.svg"):
        figure = Figure(figsize=(1, 1))
        figure.add_subplot().plot([0, 1], [0, 1], clip_on=True)
        save(figure, tmp_path / name, dpi=50)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_lines_of_error_have_the_slopes_of_their_methods():
    steps = np.logspace(-8, 0, 9)
    errors = {"central": steps**2 + 1e-16 / steps, "extrapolated": steps**4 + 1e-16 / steps}
    (axes,) = steps_figure(steps, errors).axes
    theory = [line for line in axes.lines if line.get_label().startswith("truncation")]
    for line, power in zip(theory, (2, 4), strict=True):
        slopes = np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata()))
        np.testing.assert_allclose(slopes, power)
        assert line.get_label().endswith(f"slope {power}")
    rounding = next(line for line in axes.lines if line.get_label().startswith("rounding"))
    np.testing.assert_allclose(rounding.get_ydata(), np.finfo(np.float64).eps / steps)


def test_operations_are_drawn_as_n_alone_grows_and_times_in_milliseconds():
    result = made_up.table1()
    for row in result["layers"].values():
        points = row["operations"]["points"]
        row["operations"]["points"] = [*points, *(point | {"d": 64, "k": 64, "r": 64} for point in deepcopy(points))]
    *_, operations, _, times, _ = table1_picture(result).axes
    for line in operations.lines:
        assert sorted(line.get_xdata()) == [4, 8, 16]
    for line in times.lines[1::2]:
        np.testing.assert_allclose(line.get_ydata(), 0.1 * np.array([4, 8, 16]))


def test_a_huge_picture_has_fewer_dots_and_an_error_names_the_file(tmp_path, monkeypatch):
    figure, asked = Figure(figsize=(200, 100)), []
    monkeypatch.setattr(figure, "savefig", lambda file, **options: asked.append(options["dpi"]))
    save(figure, tmp_path / "huge.png", dpi=160)
    assert asked[0] ** 2 * 200 * 100 == pytest.approx(MOST_PIXELS)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device: .*huge\.png"):
        save(figure, tmp_path / "huge.png", dpi=160)
