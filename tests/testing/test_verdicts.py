"""Which finding decides the verdict."""

from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.testing import verdicts
from minitransformer.testing.input_report import InputReport
from minitransformer.testing.low_precision import Loss
from minitransformer.testing.report import Report

EPS, EPS32 = 2.0**-52, 2.0**-23


def judge(monkeypatch, *records, eps=EPS32):
    monkeypatch.setattr(verdicts, "outputs_at_fault", lambda claim, inputs: f"inputs {sorted(inputs)}")
    monkeypatch.setattr(verdicts, "judge_ties", lambda claim, compared: ties(*records))
    case = SimpleNamespace(name="f", names=[r.name for r in records])
    gradients = {i: np.zeros(r.shape) for i, r in enumerate(records)}
    claim = SimpleNamespace(eps=eps, case=case, gradients=gradients, precision="float32")
    return verdicts.judge(claim, dict(enumerate(records)), "why")


def ties(*records):
    return ("kink", "ties") if any(r.kinks for r in records) and not any(r.wrong for r in records) else ("", "")


def record(name="x", off=0.0, **numbers):
    known = {"comparisons": 3, "worst_index": (0,), "claim": 1 + off, "measurement": 1.0, "worst_error": abs(off)}
    return InputReport(name, (3,), **known | {"largest": 1.0} | numbers)


@pytest.mark.parametrize(
    ("eps", "numbers", "expected"),
    [
        (EPS32, {"wrong": 1, "off": 2.0, "resolution": 1.0}, "wrong"),
        (EPS32, {"wrong": 1, "off": -2.0, "resolution": 1.0}, "wrong"),
        (EPS32, {"wrong": 1, "off": 0.5, "resolution": 1.0}, "undecided"),
        (EPS32, {"wrong": 1, "off": 0.005, "resolution": 0.009}, "wrong"),
        (EPS, {"wrong": 1, "off": 0.5, "resolution": 1.0}, "wrong"),
        (EPS, {"resolution": 0.011}, "undecided"),
        (EPS, {"resolution": 0.009}, "right"),
        (EPS, {"resolution": 0.1, "largest": 0.0}, "right"),
        (EPS, {"resolution": np.inf, "largest": 0.0}, "undecided"),
    ],
)
def test_what_a_measurement_can_decide(monkeypatch, eps, numbers, expected):
    assert judge(monkeypatch, record(**numbers), eps=eps).verdict == expected


WRONG = record("wrong", 0.5, wrong=1)
JUMP = record("jump", jumps=[(1,)])
KINK = record("kink", kinks=[(2,)])
UNCLEAR = record("unclear", resolution=1.0)
RIGHT = record("right")


@pytest.mark.parametrize(
    ("records", "expected", "name"),
    [
        ((RIGHT, UNCLEAR, KINK, JUMP, WRONG), "wrong", "wrong"),
        ((RIGHT, UNCLEAR, KINK, JUMP), "kink", "jump"),
        ((RIGHT, UNCLEAR, KINK), "kink", "kink"),
        ((RIGHT, UNCLEAR), "undecided", "unclear"),
        ((record("worse", 1e-9), RIGHT), "right", "worse"),
        ((WRONG, record("worse", 2.0, wrong=1), WRONG), "wrong", "worse"),
    ],
)
def test_the_gravest_finding_decides_whatever_the_order(monkeypatch, records, expected, name):
    for ordered in (records, records[::-1]):
        report = judge(monkeypatch, *ordered, eps=EPS)
        assert (report.verdict, report.worst.input) == (expected, name)
        assert report.subgradient == (name == "kink")
    if expected == "wrong":
        assert report.cause == f"inputs {[i for i, r in enumerate(ordered) if r.wrong]}"


def test_float64_would_do_only_if_it_is_fine_enough(monkeypatch):
    """A bound falls with (2^-52 / 2^-23)^0.8, to 1 % of the largest gradient: so 0.01 * 2^23.2 = 96,360 is the most."""
    for largest in (1.0, 3.0):
        for resolution, words in ((1.0, "why"), (96_300, "why"),
                                  (96_400, "give inputs"), (1e9, "give inputs")):  # fmt: skip
            assert words in judge(monkeypatch, record(resolution=resolution * largest, largest=largest)).cause


def test_the_gravest_loss_decides_whatever_the_order():
    claim = SimpleNamespace(precision="float32", case=SimpleNamespace(names="xwb", label="d_{}".format))
    losses = [Loss(i, (i,), 1.0, 2.0, 0.1, word) for i, word in enumerate(("right", "undecided", "wrong"))]
    for some, expected in ((losses, "wrong"), (losses[:2], "undecided"), (losses[:1], "right")):
        for ordered in (some, some[::-1]):
            report = Report("f", "right")
            verdicts.judge_rounding(report, claim, ordered)
            assert report.verdict == expected
            assert expected == "right" or report.worst.input == {"undecided": "w", "wrong": "b"}[expected]
