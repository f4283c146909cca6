"""The picture of errors over step sizes."""

import numpy as np
from made_up import ERRORS, STEPS

from minitransformer.apps.plots import step_sizes
from minitransformer.apps.plots.step_sizes import steps_figure


def test_an_error_of_zero_is_drawn_at_the_floor():
    (axes,) = steps_figure(STEPS, {"central": np.zeros(9)}).axes
    assert (axes.lines[0].get_ydata() == 2.0**-52 / 8).all()


def test_a_png_is_written(tmp_path):
    step_sizes(STEPS, ERRORS, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")


def test_an_error_that_does_not_fall_has_no_line_of_truncation():
    (axes,) = steps_figure(STEPS, {"central": np.full(9, 0.5)}).axes
    assert [line.get_label() for line in axes.lines] == ["central", "rounding, ε / h"]


def test_the_line_of_rounding_is_that_of_the_precision():
    (axes,) = steps_figure(STEPS, ERRORS, epsilon=1e-3).axes
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), 1e-3 / STEPS)
