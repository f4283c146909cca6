"""Numbers and names of pictures that are easy to draw wrongly: thinned names, lines of theory, means, units."""

import errno
import os

import numpy as np
import pytest
from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure

from minitransformer.apps.plots.colours import use_style
from minitransformer.apps.plots.fonts import face_for
from minitransformer.apps.plots.heatmap import draw, name_columns, name_rows, text_inches
from minitransformer.apps.plots.saving import save


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


def save_as_tutorials_do(figure, path, dpi):
    with rc_context():
        use_style()
        figure.savefig(path, metadata={"Date": None})


@pytest.mark.parametrize("write", [save, save_as_tutorials_do])
def test_a_picture_as_svg_is_the_same_file_each_time(tmp_path, write):
    for name in ("one.svg", "two.svg"):
        figure = Figure(figsize=(1, 1))
        figure.add_subplot().plot([0, 1], [0, 1], clip_on=True)
        write(figure, tmp_path / name, dpi=50)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_huge_picture_has_fewer_dots_and_an_error_names_the_file(tmp_path, monkeypatch):
    figure, asked = Figure(figsize=(200, 100)), []
    monkeypatch.setattr(figure, "savefig", lambda file, **options: asked.append(options["dpi"]))
    save(figure, tmp_path / "huge.png", dpi=160)
    assert asked[0] ** 2 * 200 * 100 == pytest.approx(40e6)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device: .*huge\.png"):
        save(figure, tmp_path / "huge.png", dpi=160)


def test_texts_are_measured_in_inches_and_the_largest_counts():
    face, figure = face_for(["M"]), Figure(dpi=50)
    for label, others in (("MMMM", ["i", "MM"]), ("Mg", ["M"])):
        box = figure.text(0, 0, label, size=36).get_window_extent()
        width, height = text_inches([label, *others], 36, face)
        assert (width, height) == pytest.approx((box.width / 50, box.height / 50), rel=0.05)
        assert text_inches([label, *others], 36, face, rotation=90) == pytest.approx((height, width), rel=0.05)


@pytest.mark.parametrize("name", ["attention", "signed", "magnitude"])
def test_colour_maps_are_white_at_0_and_darker_the_further_from_it(name):
    sides = [np.linspace(0.5, 1, 65), np.linspace(0.5, 0, 65)] if name == "signed" else [np.linspace(0, 1, 65)]
    for side in sides:
        brightness = colormaps[name](side)[:, :3] @ [0.2126, 0.7152, 0.0722]
        assert brightness[0] == pytest.approx(1, abs=0.01)
        assert (np.diff(brightness) < 0).all()
    assert name != "signed" or not np.allclose(colormaps[name](0.0), colormaps[name](1.0), atol=0.3)
