"""Three reports as they are printed, and the parts that they are made of."""

from pathlib import Path

import numpy as np
import pytest
from approved import check_approved
from check_cases import EXACT as X
from check_cases import d_square, relu, square

from minitransformer import Operation
from minitransformer.testing import GradientError, examine, gradcheck
from minitransformer.testing.report import HEADLINES, InputReport, Report

pytestmark = pytest.mark.numpy_only("the digits that are printed")


def test_reports_as_they_are_printed():
    wrong = examine(
        lambda x, w: relu(x) + w,
        backward=lambda x, w, d: ((x > 0) * d, 2 * d),
        inputs=[np.array([1.0, 0, -2]), np.ones(3)],
        d_output=np.ones(3),
    )
    right = examine(
        lambda x: (x * x, x.argmax(), None),
        backward=lambda x, d: 2 * x * d[0],
        inputs=[np.arange(1, 10, dtype=np.float32)],
        d_output=(np.ones(9), None, None),
        max_entries=3,
    )
    with pytest.raises(GradientError) as caught:
        gradcheck(Operation(lambda x: (x * x, x), lambda x, d: (x * d,), name="square"), [X], d_output=np.ones((2, 3)))
    check_approved(Path(__file__).with_name("approved_reports.txt"), f"{wrong}\n\n{right}\n\n{caught.value}\n")


@pytest.mark.parametrize("verdict", HEADLINES)
@pytest.mark.parametrize("subgradient", [False, True])
@pytest.mark.parametrize("wrong", [0, 1])
def test_the_power_is_that_of_a_report_which_found_nothing_wrong(verdict, subgradient, wrong):
    record = InputReport("x", (2,), comparisons=2, n_entries=2, size=1.0, one=0.25, together=0.5, wrong=wrong)
    report = Report("f", verdict, "a cause", None, [record], subgradient, 1 + wrong, "measured", ["y"])
    known = not wrong and (subgradient or verdict in ("right", "undecided"))
    assert (report.power is not None) == known
    lines = str(report).splitlines()
    assert lines[0] == f"f{' (order 2)' * wrong}: {HEADLINES[verdict]}"
    assert lines[1:3] == ["  cause: a cause", *f"  {record}".splitlines()[:1]]
    assert lines[-2:] == ["  without a gradient: y", "  measured"]
    assert (f"  {report.power}" in lines) == known


@pytest.mark.parametrize("verdict", ["right", "wrong", "kink", "undecided"])
@pytest.mark.parametrize("detects", [None, 0.4, 0.6])
def test_a_check_passes_if_the_gradient_is_right_and_a_wrong_one_would_be_found(verdict, detects):
    records = [
        InputReport(name, (2,), comparisons=2, n_entries=2, size=1.0, one=error, together=error, worst_error=error)
        for name, error in (("x", 0.25), ("w", 0.5))
    ]
    report = Report("f", verdict, "a cause", inputs=records, constants=["n"])
    report.demand(detects)
    assert report.passed == (verdict == "right" and detects != 0.4)
    assert report.worst_error == 0.5
    assert (report.power is not None) == (verdict in ("right", "undecided"))
    assert ("detects=0.4" in str(report)) == (verdict == "right" and detects == 0.4)
    assert "  without a gradient: n" in str(report).splitlines()
    assert Report("f", "right").worst_error == 0


def test_the_second_order_moves_as_many_entries_as_the_first():
    pair = (d_square, lambda x, d, g: (2 * d * g, 2 * x * g))
    inputs = examine(square, backward=pair, inputs=[np.arange(1, 13.0)], order=2, max_entries=3, n_directions=2).inputs
    assert [(r.name, r.comparisons, r.directions) for r in inputs] == [("x", 5, 2), ("d_y", 5, 2)]
