"""What the checker finds, as fields: the verdict, the cause in a few words, the entry that is off, and both numbers."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from check_cases import EXACT as X
from check_cases import d_square, d_times, relu, square, times

from minitransformer.testing import check, examine, explain, verdicts
from minitransformer.testing import report as reports
from minitransformer.testing.report import InputReport, Power
from minitransformer.testing.steps import Slope

ONES, F32 = np.ones((2, 3)), np.float32
SLIGHT = np.float32([[1, 1.001, 1], [0.999, 1, 1]])
KINKED, LINE = np.array([1.0, 0.0, -2.0]), np.array([1.0, 2.0, 4.0])


def only_float32(x):
    if x.dtype == np.float64:
        raise TypeError("give float32")
    return x * x


def rounded(x):
    return x.astype(F32) + F32(1e9)


def found(function, backward, *inputs, **arguments):
    value = function(*inputs)
    ones = np.ones(np.shape(value), getattr(value, "dtype", float)) if not isinstance(value, tuple) else None
    return examine(function, backward=backward, inputs=inputs, **({"d_output": ones} | arguments))


WRONG = {  # a function, its backward pass, the inputs; words of the cause, the worst input, its index, both numbers
    "a factor": (square, lambda x, d: 4 * x * d, [X], "2 times", "x", (0, 0), 4, 2),
    "one entry": (square, lambda x, d: 2 * x * d + (x > 3), [X], "", "x", (1, 0), 9, 8),
    "the sign": (times, lambda x, w, d: (w * d, -x * d), [X, X + 2], "sign", "w", (0, 0), -1, 1),
    "swapped": (
        times, lambda x, w, d: (x * d, w * d), [X, X + 2], "of x is that of w|of w is that of x.*swapped", "w", (1, 2),
        1, -1,
    ),
    "twice": (times, lambda x, w, d: (w * d, w * d), [X, X + 2], "of w is that of x.*twice", "w", (1, 2), 1, -1),
    "None": (times, lambda x, w, d: (w * d, None), [X, X + 2], "None for w", "w", (0, 0), 0, 1),
    "zero": (square, lambda x, d: 0 * x, [X], "gradient of x", "x", (0, 0), 0, 2),
    "transposed": (
        lambda x: x * np.arange(9).reshape(3, 3), lambda x, d: d * np.arange(9).reshape(3, 3).T, [np.ones((3, 3))],
        "transposed", "x", (0, 1), 3, 1,
    ),
    "one zero beside a jump": (
        lambda x: 2 * x + (x >= 1), lambda x, d: 2 * d * (x < 1), [X], "1 entry is zero", "x", (1, 0), 0, 2,
    ),
    "a term": (
        lambda x: x**3, lambda x, d: (3 * x * x - 2 * x) * d, [X], r"lacks a term: 2 \* ", "x", (0, 2), -0.25, 0.75,
    ),
    "at a kink": (relu, lambda x, d: 3 * d * (x >= 0), [KINKED[1:]], "", "x", (0,), 3, 0.5),
    "beside a kink": (relu, lambda x, d: d * [2, 0, 0], [KINKED], "2 times", "x", (0,), 2, 1),
    "a single number": (square, lambda x, d: 4 * x * d, [np.array(1.0)], "", "x", (), 4, 2),
    "swapped beside a kink": (
        lambda x, w: relu(x) + 3 * w, lambda x, w, d: (3 * d, (x > 0) * d), [KINKED, LINE], "swapped", "x", (2,), 3, 0,
    ),
    "twice beside a kink": (
        lambda x, w: relu(x) + 3 * w, lambda x, w, d: (3 * d, 3 * d), [KINKED, LINE], "twice", "x", (2,), 3, 0,
    ),
    "a factor beside a jump": (
        lambda x: np.floor(x) + 2 * x, lambda x, d: 3 * d, [np.array([0.25, 1.0, 1.5])], "1.5 times", "x", (0,), 3, 2,
    ),
    "by a size": (
        lambda x, w: (x * x).sum() + (w * w).sum(), lambda x, w, d: (14 * x * d, 2 * w * d),
        [X, np.arange(1.0, 36).reshape(7, 5)], r"w.shape\[0\] = 7 times too large", "x", (0, 1), -28, -4,
    ),
    "an empty input": (
        lambda x, w: w + x.sum(), lambda x, w, d: (0 * x, 3 * d), [np.zeros((0, 3)), np.ones(2)],
        r"x.shape\[1\] = 3 times too large", "w", (0,), 3, 1,
    ),
    "a ufunc": (np.multiply, lambda x, w, d: (w * d, 2 * x * d), [X, 2 * X], "2 times", "x2", (0, 0), 2, 1),
    "conjugate": (square, lambda z, d: 2 * z * d, [X + 1j], "complex conjugate of what", "x.imag", (0, 0), 2, -2),
    "times i": (square, lambda z, d: -2j * np.conj(2 * z) * d, [X + 1j], "-2j times what", "x.real", (0, 0), -4, 2),
    "a complex factor": (
        square, lambda z, d: (1.5 + 0.5j) * np.conj(2 * z) * d, [X + 1j], r"\(1.5\+0.5j\) times", "x.imag", (1, 0), 1,
        -2,
    ),
    "a conjugate and a factor": (
        square, lambda z, d: 6j * z * d, [X + 1j], "-3j times the complex conj", "x.real", (1, 0), -6, 8,
    ),
    "a factor in few digits": (
        only_float32, lambda x, d: 3 * x * d * SLIGHT, [F32(X)], "1.5 times", "x", (0, 1), -6, -4,
    ),
    "a sign in few digits": (only_float32, lambda x, d: -2 * x * d * SLIGHT, [F32(X)], "sign", "x", (1, 2), 2, -2),
    "a term in few digits": (
        lambda x, w: only_float32(x) + x * w, lambda x, w, d: (2 * x * d * SLIGHT, x * d), [F32(X), F32(X[::-1])],
        "lacks a term: w", "x", (1, 1), 0.5, -1.5,
    ),
    "twice in few digits": (
        lambda x, w: only_float32(x) + 3 * w, lambda x, w, d: (3 * d * SLIGHT, 3 * d), [F32(X), F32(2 * X)],
        "that of w.*twice", "x", (0, 1), 3, -4,
    ),
    "in float32 only": (
        square, lambda x, d: 2 * x * d * x.dtype.type(1 + (x.dtype == F32) / 8), [F32(X)],
        "right in float64, but in float32",
        "x", (1, 0), 9, 8,
    ),
    "rounded to float32 inside": (
        lambda x: square(x).astype(F32).astype(float), lambda x, d: 4 * x * d, [X], "2 times", "x", (0, 0), 4, 2,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gradient_its_cause_and_its_worst_entry(name):
    function, backward, inputs, cause, *worst = WRONG[name]
    report = found(function, backward, *inputs)
    assert report.verdict == "wrong"
    assert (report.cause == "") == (cause == "")
    assert re.search(cause, report.cause)
    entry = report.worst
    assert (entry.input, entry.index) == tuple(worst[:2])
    assert (entry.found, entry.expected) == pytest.approx(worst[2:], rel=2e-3)
    if report.errors:
        h, errors = np.array(report.errors).T
        assert (h[:-1] / h[1:] == 4).all()
        assert errors[len(errors) // 2] == pytest.approx(abs(entry.found - entry.expected), rel=0.2)


def test_a_backward_pass_that_ignores_the_gradient_of_the_output():
    report = examine(square, backward=lambda x, d: 2 * x, inputs=[X], d_output=ONES / 2)
    assert report.verdict == "wrong"
    assert (report.worst.found, report.worst.expected) == pytest.approx((2, 1))
    assert "ignores the gradient of the output" in report.cause


TERMS = {  # what is missing in the gradient of x, and how it is named
    "2 * d_output[0]": lambda x, w, a, b: 2 * a,
    "-d_output[1]": lambda x, w, a, b: -b,
    "x": lambda x, w, a, b: x,
    "-3 * w": lambda x, w, a, b: -3 * w,
    "d_output[0] * x": lambda x, w, a, b: a * x,
    "-d_output[0] * w": lambda x, w, a, b: -a * w,
    "0.5 * d_output[1] * w": lambda x, w, a, b: 0.5 * b * w,
}


@pytest.mark.parametrize("name", TERMS)
def test_a_term_that_is_missing_is_named_with_its_factor_and_output(name):
    def backward(x, w, d):
        return 3 * x * x * d[0] + 2 * x * d[1] - TERMS[name](x, w, *d), 5 * d[1]

    report = examine(lambda x, w: (x**3, 5 * w + x * x), backward=backward, inputs=[X, X[::-1] + 3])
    assert report.cause.endswith(f"the gradient of x lacks a term: {name}")
    output = re.search(r"the output (y\[\d\]) ", report.cause)
    assert "d_output[" not in name or output[1][1:] in name


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (2, "2 times what"), (3, "x.shape[1] = 3 times too large"), (5, "w.shape[1] = 5 times too large"),
        (4, "4 times what"), (1 / 7, "w.shape[0] = 7 times too small"), (5**0.5, "sqrt(w.shape[1]) = 2.236 times too"),
    ],
)  # fmt: skip
def test_a_factor_that_is_the_size_of_an_axis_is_named_unless_it_has_other_causes(times, words):
    def backward(x, w, d):
        return 2 * x * d * times, 2 * w * d

    inputs = [X, np.arange(1.0, 36).reshape(7, 5)]
    report = examine(lambda x, w: (x * x).sum() + (w * w).sum(), backward=backward, inputs=inputs)
    assert words in report.cause


@pytest.mark.parametrize("at_fault", [0, 1, 2])
def test_the_one_output_of_three_that_is_at_fault(at_fault):
    factors = np.where(np.arange(3) == at_fault, 1.5, 1)

    def backward(x, d):
        return factors[0] * 2 * x * d[0] + factors[1] * 3 * d[1] + factors[2] * 3 * x * x * d[2]

    report = examine(lambda x: (x * x, 3 * x, x**3), backward=backward, inputs=[X], d_output=(ONES, ONES, ONES))
    assert re.search(rf"the output y\[{at_fault}\] .*1.5 times", report.cause)


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (0.5, "0.5"),
        (-1e9, "-1e+09"),
        (2j, "2j"),
        (-0.25j, "-0.25j"),
        (1 + 2j, "(1+2j)"),
        (-1.23456 - 7j, "(-1.235-7j)"),
    ],
)
def test_a_complex_factor_is_found_and_shown(factor, text):
    z, known = np.array([1, -2j, 0.5 + 3j]), np.array([1, -2j, np.nan, 0.5 + 3j])
    assert explain._text(complex(factor)) == text
    assert explain._factor(factor * z, z, 1e-5) == pytest.approx(factor)
    assert explain._factor(factor * np.where(np.isnan(known), 7, known), known, 1e-5) == pytest.approx(factor)
    assert explain._factor(factor * np.array([1, -2j, 0.5 - 3j]), z, 1e-5) == 0
    assert explain._factor(factor * z[:2], z, 1e-5) == explain._factor(z, 0 * z, 1e-5) == 0
    assert explain._factor(1.00009 * z, z, 1e-5) == explain._factor(1.0003 * z, z, 1e-3) == 1
    assert explain._factor(1.0003 * z, z, 1e-5) != 1


def test_a_large_factor_is_found_beside_an_entry_of_almost_nothing():
    z = np.array([np.pi / 2 + 0j, 1, 2 + 1j])
    assert "1e+09j times" in found(np.sin, lambda z, d: 1e9j * np.cos(z).conj() * d, z).cause


# --- right, and what could have been found

RIGHT = {  # the function, its gradient, inputs; the smallest error of one entry that would be found, and of all
    "a square": (square, d_square, [X], 1.1e-7, 5.5e-8),
    "a larger one": (square, d_square, [4 * X], 1.1e-7, 5.5e-8),
    "a product": (times, d_times, [X, X], 2.2e-7, 1.1e-7),
    "of very different size": (times, d_times, [np.ones(3), 1e6 * np.ones(3)], 2.4e-7, 2.4e-7),
    "in float32": (times, d_times, [F32(X), F32(X)], 3.45e-4, 3.45e-4),
    "that runs in float32 alone": (only_float32, d_square, [F32(X)], 2.2e-2, 5.7e-3),
    "that rounds inside": (rounded, lambda x, d: d, [X[:1]], 1.4, 0.7),
    "beside 64": (lambda x: 64 + x * x, d_square, [F32(X)], 3.45e-4, 3.45e-4),
    "of a complex number": (square, lambda z, d: np.conj(2 * z) * d, [X + 1j], 9.7e-8, 1.49e-8),
    "with an infinite entry": (
        lambda x: np.where(np.isinf(x), 0, x * x), lambda x, d: np.where(np.isinf(x), 0, 2 * x * d),
        [np.array([1.0, np.inf, 2.0])], 4.95e-8, 4.95e-8,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_gradient_and_the_smallest_errors_that_would_be_found(name):
    function, backward, inputs, one, together = RIGHT[name]
    report = found(function, backward, *inputs)
    assert (report.verdict, report.cause) == ("right", "")
    assert (report.power.one, report.power.together) == pytest.approx((one, together), rel=0.05)

    def off(*arguments):
        gradients = backward(*arguments)
        if isinstance(gradients, tuple):
            return (gradients[0] * (1 + 1.5 * together), *gradients[1:])
        return gradients * gradients.dtype.type(1 + 1.5 * together)

    if report.measured == "":  # in float64 a gradient is held to more digits than float32 has
        assert found(function, off, *inputs).verdict != "right"
    detects = max(one, together)
    assert found(function, backward, *inputs, detects=1.1 * detects).verdict == "right"
    few = found(function, backward, *inputs, detects=0.9 * detects)
    assert (few.verdict, f"detects={0.9 * detects:g}" in few.cause) == ("undecided", True)


def test_where_the_gradient_is_zero_no_error_is_relative_to_it():
    report = found(lambda x: 0 * x, lambda x, d: 0 * d, X, detects=1e-3)
    assert (report.verdict, report.power) == ("undecided", None)
    assert "the gradient is zero" in report.cause


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (((1, 0.5, 0.25), (4, 1, 0.5)), Power(0.5, 0.5)),
        (((4, 4, 0.25), (1, 0.5, 0.125)), Power(1.0, 0.25)),
        (((0, 1, 1), (1, 2, 3)), Power(2.0, 3)),
        (((0, 1, 1),), None),
        ((), None),
    ],
)
def test_the_power_of_several_inputs_is_that_of_the_worst(inputs, expected):
    records = [
        InputReport("x", (2,), comparisons=2, n_entries=2, size=size, one=one, together=together)
        for size, one, together in inputs
    ]
    assert reports.power_of(records) == expected


def entered(*comparisons, shape=(4,), **fields):
    record = InputReport("x", shape, n_entries=4, size=2.0, **fields)
    for claim, slope, *rest in comparisons:
        record.enter(claim, Slope(*slope), 1e-3, *rest)
    return record


def test_what_is_recorded_of_comparisons():
    record = entered(
        (1.0, (1.0, 1e-6), (0,), 0.25),
        (-2.0, (5.0, 1e-3), (1,), 0.5),
        (3.0, (3.0, 1e-4), None, 0.125),
        (0.5, (0.0, 0.0, (0.0, 1.0)), (2,), 0.75),
    )
    assert (record.comparisons, record.directions, record.wrong, record.kinks) == (4, 1, 1, [(2,)])
    assert (record.worst_error, record.worst_index, record.claim, record.measurement) == (1.4, (1,), -2, 5)
    assert (record.wrong_entries, record.sides) == ({(1,): (5, 5)}, None)
    assert (record.largest, record.resolution, record.turns) == (5, 1e-3, False)
    assert (record.one, record.together) == (0.75, 0.125 / 3)
    assert record.power.one == np.inf  # one of four entries did not move


def test_what_is_recorded_of_what_is_not_finite():
    record = entered((np.inf, (1.0, 1e-6), (0,)), (1.0, (np.nan, 1e-3), (1,)), (1.0, (-7.0, np.inf), (3,)))
    assert (record.comparisons, record.wrong, record.worst_error, record.worst_index) == (3, 2, np.inf, (0,))
    assert (record.largest, record.resolution, record.turns) == (7, np.inf, True)
    assert record.wrong_entries[0,] == (1, 1)


@pytest.mark.parametrize(("moved", "certain", "one"), [(4, 0.125, 0.75 / 2), (3, 0.125, 0.125 / 2), (3, 0.0, np.inf)])
def test_a_single_wrong_entry_is_found_where_it_moved_or_from_a_certain_error_on(moved, certain, one):
    record = entered(*((1.0 + i, (1.0 + i, 1e-6), (i,), 0.25 * i) for i in range(moved)), certain=certain)
    assert record.power.one == one


# --- kinks and pieces that meet


def test_the_kinks_are_listed_and_the_cause_names_the_first_and_the_option():
    report = found(relu, lambda x, d: (x > 0) * d, X * (X > 0))
    assert (report.verdict, report.subgradient, report.inputs[0].kinks) == ("kink", True, [(0, 1), (1, 2)])
    assert report.cause.startswith("at x[0, 1] ")
    assert 'kinks="accept"' in report.cause
    accepted = check(relu, backward=lambda x, d: (x > 0) * d, inputs=[np.array(0.0)], d_output=1.0, kinks="accept")
    assert (accepted.inputs[0].kinks, accepted.cause[:5]) == ([()], "at x ")


@pytest.mark.parametrize("share", [-0.25, 0.0, 0.25, 0.5, 1.0, 1.5])
def test_a_claim_at_a_kink_is_judged_by_the_slopes_on_both_sides(share):
    report = found(relu, lambda x, d: d * np.where(x == 0, share, x > 0), np.array([1.0, 0.0]))
    assert report.verdict == ("kink" if 0 <= share <= 1 else "wrong")
    if report.verdict == "wrong":  # of the steps around a kink no error is shown
        assert report.inputs[0].sides == pytest.approx((0, 1), abs=1e-6)
        assert (report.worst.index, report.errors) == ((1,), [])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((1 / 3, 1 / 6, 1 / 12), "kink"), ((1, 0, 0), "kink"), ((0, 0, 0.25), "kink"), ((0.5, 0.25, 0), "kink"),
        ((1.5, -0.25, 0), "wrong"), ((-0.2, 0.3, 0.15), "wrong"), ((0, 0, 0), "wrong"), ((2, 0.5, 0.25), "wrong"),
    ],
)  # fmt: skip
def test_a_claim_where_three_pieces_meet_is_an_average_of_theirs_or_wrong(weights, expected):
    """Nearby, the gradient of the median of x, 2 x and 4 x is (1, 0, 0), (0, 2, 0) or (0, 0, 4)."""
    claimed = np.array(weights) * [1, 4, 16]
    x = np.array([1.0, 1 / 2, 1 / 4])
    report = found(lambda x: np.median(x * [1, 2, 4], keepdims=True), lambda x, d: d * claimed, x)
    assert (report.verdict, report.subgradient) == (expected, False)
    assert ("more than two" in report.cause) == (expected == "kink")


@pytest.mark.parametrize(("k", "expected"), [(0, "wrong"), (3, "wrong"), (9, "kink")])
def test_more_kinks_of_two_inputs_than_move_alone(k, expected):
    def backward(x, y, d):
        return 0.5 * d + 0 * x, (np.arange(9) == k) * d - 0.5 * d

    report = found(lambda x, y: np.abs(x - y).sum(keepdims=True), backward, np.ones(9), np.ones(9))
    assert (report.verdict, report.subgradient) == (expected, expected == "kink")


MEETING = {  # pieces that meet at the inputs; the verdict, whether it is a subgradient, words of the cause
    "no entry alone shows it": (
        lambda x: np.minimum(np.abs(x[:1]), np.abs(x[1:])), lambda x, d: 0 * x, [np.zeros(2)], "kink", True,
        "meet at x,",
    ),
    "of two inputs": (
        lambda x, y: np.minimum(np.abs(x), np.abs(y)), lambda x, y, d: (0 * x, 0 * y), [np.zeros(1), np.zeros(1)],
        "kink", True, "meet at x and y,",
    ),
    "more than two, of two inputs": (
        lambda x, y: np.sort(np.concatenate([x, y]))[1:2], lambda x, y, d: (d / 3 * np.ones(2), d / 3),
        [np.ones(2), np.ones(1)], "kink", False, "meet at x and y,",
    ),
    "beside an infinite entry": (
        lambda x: np.minimum(np.abs(x[:1]), np.abs(x[1:2])) + np.minimum(x[2:], 1), lambda x, d: 0 * np.nan_to_num(x),
        [np.array([0.0, 0.0, np.inf])], "kink", True, "meet at x,",
    ),
    "only smaller inputs reach the steep one": (
        lambda x: np.minimum(np.maximum(x[:1], x[1:2]), np.maximum(3 * x[:1], x[2:])),
        lambda x, d: d * np.array([3.0, 0, 0]), [np.zeros(3)], "kink", False, "more than two",
    ),
    "none is claimed": (
        lambda x: np.median(x)[None], lambda x, d: 0 * x, [np.ones(3)], "wrong", False, "each entry lies between",
    ),
    "together no average": (
        lambda x: np.abs(x[:1] - x[1:]), lambda x, d: d * np.ones(2), [np.ones(2)], "wrong", False, "no average",
    ),
    "nothing beside it is finite": (
        lambda x: np.where((x[:1] != 1) & (x[1:] != 1), np.nan, np.abs(x[:1] - x[1:])),
        lambda x, d: d * np.array([0.3, 0.7]), [np.ones(2)], "kink", True, "at x[0] ",
    ),
    "the wrong piece of a sort": (np.sort, lambda x, d: 2 * d, [np.ones(3)], "wrong", False, ""),
    "an entry jumps": (np.floor, lambda x, d: 0 * d, [np.array([0.25, 1.0])], "kink", False, "jumps as x[1] moves"),
    "a single number jumps": (np.floor, lambda x, d: 0 * d, [np.array(1.0)], "kink", False, "jumps as x moves"),
}  # fmt: skip


@pytest.mark.parametrize("name", MEETING)
def test_pieces_that_meet(name):
    function, backward, inputs, verdict, subgradient, words = MEETING[name]
    report = found(function, backward, *inputs)
    assert (report.verdict, report.subgradient) == (verdict, subgradient)
    assert words in report.cause


# --- undecided: rounding, domains, turns

UNDECIDED = {
    "rounds to a grid": (lambda x: np.round(1024 * x) / 1024, lambda x, d: d, X / 3, "jumps by 7.3e-04 of its size"),
    "rounds to float16": (
        lambda x: square(x).astype("f2").astype(float), d_square, X / 3, "to a shorter type than float32",
    ),
    "turns between numbers": (
        lambda x: np.sin(1e17 * x), lambda x, d: 1e17 * np.cos(1e17 * x) * d, np.array([0.7]), "of x, where no step",
    ),
    "at the border of its domain": (
        lambda x: x**1.5, lambda x, d: 1.5 * np.sqrt(x) * d, np.array([0.0, 1.0]), "not finite around the input x",
    ),
    "finite at single points": (
        lambda x: np.where(np.isin(x, [0, 5, -3]), x, np.nan), lambda x, d: d, np.array([0.0, 5, -3]),
        "not finite around",
    ),
    "computes in float32 whatever is given": (
        rounded, lambda x, d: 2 * d, F32([1, 0.25]),
        "measured to 1.9e+00, and its entries are at most 2.0e+00; float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_cannot_be_decided_and_why(name):
    function, backward, x, words = UNDECIDED[name]
    report = examine(function, backward=backward, inputs=[x], d_output=np.ones_like(x))
    assert report.verdict == "undecided"
    assert words in report.cause


PARTS = {  # a function of one number, the slope that is claimed, the number
    "wrong": (square, lambda x: 3 * x, 2.0),
    "jump": (np.floor, lambda x: 0 * x, 1.0),
    "unclear": (lambda x: x**1.5, lambda x: 1.5 * np.sqrt(x), 0.0),
    "kink": (relu, lambda x: 1.0 * (x > 0), 0.0),
    "right": (square, lambda x: 2 * x, 3.0),
}


@pytest.mark.parametrize(
    ("gravest", "verdict"), [("wrong", "wrong"), ("jump", "kink"), ("unclear", "undecided"), ("kink", "kink")]
)
def test_the_gravest_finding_decides_whatever_the_order(gravest, verdict):
    names = [*PARTS][[*PARTS].index(gravest) :]
    for ordered in (names, names[::-1]):
        functions, slopes, places = zip(*(PARTS[name] for name in ordered), strict=True)
        report = examine(
            lambda *xs, fs=functions: sum(f(x) for f, x in zip(fs, xs, strict=True)),
            backward=lambda *xs, gs=slopes: tuple(g(x) * xs[-1] for g, x in zip(gs, xs[:-1], strict=True)),
            inputs=[np.array([place]) for place in places], names=ordered,
        )  # fmt: skip
        assert (report.verdict, report.worst.input if report.worst else None) == (verdict, gravest), report
        assert report.subgradient == (gravest == "kink")


def test_float64_would_do_only_if_it_is_fine_enough():
    """A bound falls with (2^-52 / 2^-23)^0.8, to 1 % of the largest gradient: so 0.01 * 2^23.2 = 96,360 is the most."""
    claim = SimpleNamespace(eps=2.0**-23, precision="float32")
    for largest, bound, words in ((1.0, 96_300, "why"), (3.0, 288_900, "why"), (3.0, 289_200, "give inputs")):
        assert words in verdicts._why_unclear(claim, InputReport("x", (3,), largest=largest, resolution=bound), "why")


# --- the same verdict, whatever order, names and scale

CASES = {
    **{name: row[:3] for name, row in WRONG.items() if "float32" not in name},
    "right": (times, d_times, [X, X + 2]),
}
ONE_INPUT = [
    name for name, row in CASES.items() if len(row[2]) == 1 and row[1] and row[2][0].ndim and "digits" not in name
]


def fields(report):
    """Return of each input how many entries were compared, how many are wrong, and the slopes along these."""
    slopes = [sorted(round(abs(low), 6) for low, _ in r.wrong_entries.values()) for r in report.inputs]
    return [(r.comparisons, r.wrong, found) for r, found in zip(report.inputs, slopes, strict=True)]


@pytest.mark.parametrize("name", [name for name in ONE_INPUT if name != "transposed"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_entries_changes_no_verdict(name, seed):
    function, backward, [x] = CASES[name]
    order = np.random.default_rng(seed).permutation(x.size)
    back = np.argsort(order)
    y = x.ravel()[order]

    def turned(z, d_y):
        return backward(z.ravel()[back].reshape(x.shape), d_y.ravel()[back].reshape(x.shape)).ravel()[order]

    def function_of(z):
        return function(z.ravel()[back].reshape(x.shape)).ravel()[order]

    one, other = found(function, backward, x), found(function_of, turned, y)
    assert (one.verdict, fields(one)) == (other.verdict, fields(other))


@pytest.mark.parametrize("name", ["a factor", "one entry", "the sign", "swapped", "zero", "conjugate", "right"])
@pytest.mark.parametrize("power", [-20, 1, 20])
def test_the_scale_of_a_function_changes_no_verdict_and_no_cause(name, power):
    function, backward, inputs = CASES[name]

    def larger(*xs):
        return 2.0**power * function(*xs)

    def backward_of(*arguments):
        gradients = backward(*arguments)
        pair = isinstance(gradients, tuple)
        return tuple(2.0**power * g for g in gradients) if pair else 2.0**power * gradients

    one = found(function, backward, *inputs)
    other = found(larger, backward_of, *inputs, names=[*"xw"][: len(inputs)])
    assert (one.verdict, fields(one)[0][:2]) == (other.verdict, fields(other)[0][:2])
    assert name == "conjugate" or other.cause == one.cause
    if one.worst:
        pair = np.array([one.worst.found, one.worst.expected])
        assert [other.worst.found, other.worst.expected] == (2.0**power * pair).tolist()


@pytest.mark.parametrize("name", ["the sign", "twice", "None", "right"])
def test_the_order_of_inputs_changes_no_verdict(name):
    function, backward, inputs = CASES[name]
    turned = found(lambda w, x: function(x, w), lambda w, x, d: backward(x, w, d)[::-1], *inputs[::-1])
    report = found(function, backward, *inputs)
    assert (turned.verdict, turned.cause) == (report.verdict, report.cause)
    assert fields(turned) == fields(report)[::-1]


@pytest.mark.parametrize("name", ["a factor", "one entry", "right"])
def test_entries_that_do_not_matter_change_nothing(name):
    function, backward, inputs = CASES[name]

    def padded(*xs):
        return function(*(x[:, :3] for x in xs))

    def pad(*arguments):
        found = backward(*(x[:, :3] for x in arguments))
        return tuple(np.append(g, np.zeros((2, 1)), axis=1) for g in (found if isinstance(found, tuple) else [found]))

    for filler in (7.0, np.nan, np.inf):
        wide = [np.append(x, np.full((2, 1), filler), axis=1) for x in inputs]
        assert found(padded, pad, *wide).verdict == found(function, backward, *inputs).verdict
