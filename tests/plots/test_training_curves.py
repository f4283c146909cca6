import warnings

import numpy as np
import pytest
from made_up import evaluation, metrics, training

from minitransformer.apps.plots import training_curves
from minitransformer.apps.plots.curves import curves_figure, duration, smooth


@pytest.mark.parametrize(("fall", "scale"), [(4, "linear"), (40, "log"), (1e6, "log")])
def test_the_range_chooses_the_scale(fall, scale):
    figure = curves_figure(metrics(100, fall))
    assert figure.axes[0].get_yscale() == scale
    figure.canvas.draw()
    low, high = figure.axes[0].get_ylim()
    shown = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sum(low <= float(text) <= high for text in shown if text) >= 3


@pytest.mark.parametrize(
    ("metrics", "panels"),
    [
        ([training(10, 3.0)], ["loss"]),
        ([{"step": 0, "loss": 3.0}], ["loss"]),
        ([training(10, 3.0), training(20, 2.0)], ["loss", "learning\nrate"]),
        ([evaluation(10, 0.5)], ["correct, %"]),
        ([{"step": 10, "exact_match": 0.0}], ["correct, %"]),
        ([training(10, 3.0), evaluation(10, 0.5)], ["loss", "correct, %"]),
        ([training(1, float("nan")), training(2, float("inf"))], ["loss", "learning\nrate"]),
        ([training(0, 0.0), training(0, 0.0), training(1, 0.0)], ["loss", "learning\nrate"]),
    ],
)
def test_sparse_metrics(metrics, panels, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training_curves(metrics, str(tmp_path / "curves.png"), "title")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert [axes.get_ylabel() for axes in curves_figure(metrics).axes] == panels


def test_a_resumed_run_counts_the_later_line():
    lines = [training(1, 4.0), training(2, 9.0), training(3, 9.0), training(2, 3.0), training(3, 2.0)]
    (line,) = curves_figure(lines).axes[0].get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[1, 4], [2, 3], [3, 2]])


def test_token_accuracy_alone_is_drawn():
    lines = [training(1, 2.0), {"step": 1, "token_accuracy": 0.25}, {"step": 2, "token_accuracy": 0.5}]
    (curve,) = curves_figure(lines).axes[1].get_lines()
    np.testing.assert_array_equal(curve.get_xydata(), [[1, 25], [2, 50]])


def test_smoothed_is_the_mean_of_the_window():
    values = np.array([8.0, 4.0, 2.0, np.nan, 3.0, 7.0])
    np.testing.assert_allclose(smooth(values, 1), [8, 14 / 3, 3, 2.5, 5, 5])
    assert np.isnan(smooth(np.array([np.nan, 1.0]), 0)[0])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.24, "4.2 s"), (48, "48 s"), (59.7, "1 min 00 s"), (125, "2 min 05 s"), (3780, "1 h 03 min")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
