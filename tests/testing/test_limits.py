"""What lies just within and just beyond the limits of the checker."""

from types import SimpleNamespace

import numpy as np
import pytest
from check_cases import verdict
from toml_cases import cases_from_toml

from minitransformer.testing import examine, low_precision
from minitransformer.testing.adapters import Plain
from minitransformer.testing.case import Case
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import draw_direction
from minitransformer.testing.dtypes import Precision
from minitransformer.testing.layout import Output
from minitransformer.testing.report import Report

EPS32 = 2.0**-23


def real_case(function, *inputs, backward=lambda *arguments: arguments[-1]):
    return Case("check", function, list(inputs), {}, None, Plain(backward))


# --- two calls


def test_options_that_are_generators_start_anew_in_each_call():
    report = examine(
        lambda x, rng: x * rng.random(x.shape),
        backward=lambda x, d_y: d_y * np.random.default_rng(1).random(x.shape),
        inputs=[np.ones(4)],
        options={"rng": np.random.default_rng(1)},
    )
    assert report.verdict == "right"


# --- the cause


def test_the_cause_is_that_of_the_input_that_is_wrong_in_the_output_named():
    def backward(x, w, d):
        return w * d[0] - np.cos(x) * d[2], x * d[0] + 1.5 * np.cos(w) * d[1]

    x, w = [0.5, -1.0, 2.0], [0.3, 1.2, 0.7]
    report = verdict(lambda x, w: (x * w, np.sin(w), np.sin(x)), backward, x, w)
    assert "the output y[1] and the output y[2] " in report.cause
    assert "1.5 times" in report.cause


# --- single entries and directions


@pytest.mark.parametrize("sign", [1, -1])
def test_a_kink_is_one_though_the_claim_is_the_slope_between_both_sides(sign):
    x = [0.0, 0.0, 1.0]
    report = verdict(lambda x: sign * np.abs(x), lambda x, d_y: sign * np.sign(x) * d_y, x, d_output=np.ones(3))
    assert (report.verdict, report.subgradient) == ("kink", True)


def test_an_entry_that_is_right_stays_right_beside_wrong_ones():
    def backward(x, d_y):
        return 100 * np.cos(100 * x) * d_y * [2, 2, 2, 1, 1]

    assert verdict(lambda x: np.sin(100 * x), backward, [0.5, 1.0, -0.3, 0.2, 0.7]).inputs[0].wrong == 3


@pytest.mark.parametrize(
    ("function", "derivative", "x"),
    [
        (np.log, lambda x: 1 / x, np.array([1e-9, 2e-9])),
        (np.log, lambda x: 1 / x, np.array([1e-9] * 4 + [1.0] * 3)),
        (np.sin, np.cos, np.array([1e-13, 1.0, 1.0])),
        (
            lambda x: np.where(np.isinf(x), 0, x * x),
            lambda x: np.where(np.isinf(x), 0, 2 * x),
            np.array([np.inf, 1, 2]),
        ),
    ],
)
def test_entries_move_by_their_size_or_that_of_a_typical_one(function, derivative, x):
    for max_entries in (256, 1):
        report = verdict(function, lambda x, d_y: derivative(x) * d_y, x, max_entries=max_entries)
        assert report.verdict == "right", report


def test_the_entries_of_a_large_input_that_move_alone_are_drawn():
    x = np.linspace(0.1, 1, 60)
    moved = set()
    for seed in range(3):
        record = verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=5, seed=seed).inputs[0]
        moved.add(tuple(np.flatnonzero(np.isfinite(record.differences))))
    assert [len(entries) for entries in moved] == [5, 5, 5]


def test_each_entry_moves_by_its_size_along_a_direction(monkeypatch):
    x, ratios, slope = np.array([1e-3] * 3 + [1.0, 1e3]), [], Claim.slope

    def watched(self, i, direction, *arguments):
        ratios.append(np.abs(direction) / x)
        return slope(self, i, direction, *arguments)

    monkeypatch.setattr(Claim, "slope", watched)
    assert verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=1).verdict == "right"
    for ratio in ratios[1:]:
        assert 0.5 / 2**0.5 < ratio.min() < ratio.max() < 2 * 2**0.5


def test_each_finite_entry_moves_along_a_direction():
    x = np.ones(400)
    x[7] = np.inf
    direction = draw_direction(np.random.default_rng(0), x)
    assert direction[7] == 0
    sizes = np.abs(np.delete(direction, 7))
    assert sizes.min() >= 0.5
    assert sizes.max() <= 2
    assert 100 < (direction < 0).sum() < 300


@pytest.mark.parametrize("times", [1.0, 100.0])
def test_the_report_states_which_single_wrong_entry_of_many_is_certain_to_be_found(times):
    x = np.random.default_rng(1).normal(size=5000)
    record = verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=4).inputs[0]
    assert 0 < record.certain < 3 * 5000**0.5 * 1e-8 * 10
    assert f"{record.certain:.1e} or more" in str(record)
    assert "at least 0.0008" in str(record)
    for wrong in (0, 1234, 4999):

        def backward(x, d_y, wrong=wrong):
            return np.cos(x) * d_y + times * record.certain * (np.arange(5000) == wrong)

        for seed in range(3):
            report = verdict(np.sin, backward, x, max_entries=4, seed=seed)
            assert (report.verdict, report.worst.index) == ("wrong", (wrong,))


def test_directions_that_leave_the_domain_leave_the_gradient_undecided():
    report = verdict(lambda x: x**1.5, lambda x, d_y: 1.5 * np.sqrt(x) * d_y, [0.0, 1.0, 2.0], max_entries=0)
    assert report.verdict == "undecided"


def certain(n_directions, seed=0):
    x = np.linspace(0.1, 1, 60)
    arguments = {"max_entries": 1, "n_directions": n_directions, "seed": seed}
    return verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, **arguments).inputs[0].certain


def test_the_best_direction_says_what_is_certain_to_be_found():
    pairs = [(certain(1, seed), certain(8, seed)) for seed in range(3)]
    assert all(one >= eight for one, eight in pairs)
    assert any(one > eight for one, eight in pairs)


def test_what_the_rounding_of_the_backward_pass_hides_is_not_certain_to_be_found(monkeypatch):
    monkeypatch.setattr(Claim, "noise_along", lambda self, i, direction: 1.0)
    assert certain(1) > 1


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([1, 1, 1, 1, 1], "stays near 1 (within 20%) at all 5 steps, h = 1e+00 to 4e-03;"),
        ([1, 0.78, 0.69, 0.7, 0.69, 0.7], "stays near 0.7 (within 20%) at 5 of 6 steps, h = 2e-01 to 1e-03;"),
        ([1, 0.7, 0.7, 9, 0.7, 0.7], "stays near 0.7 (within 20%) at 4 of 6 steps, h = 2e-01 to 1e-03;"),
        ([1, 0.7, 0.7, 9, 0.7], ""),
        ([4.0 ** (-2 * n) for n in range(5)], ""),
        ([0, 0, 0, 0, 0], ""),
        ([], ""),
    ],
)
def test_only_an_error_that_stays_is_said_to_stay_and_at_all_steps_where_it_does(errors, expected):
    steps = [(4.0**-n, error) for n, error in enumerate(errors)]
    text = str(Report("f", "wrong", measure_errors=lambda: steps))
    assert ("stays near" in text) == bool(expected)
    assert expected in text


# --- short types


@cases_from_toml
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_what_rounding_explains(found, noise, expected, size):
    case = SimpleNamespace(moving=[0], inputs=[np.ones(2, np.float32)])
    output = SimpleNamespace(vector=np.zeros(2))
    claim = SimpleNamespace(
        gradients={0: size * np.array(found)}, tolerance=EPS32**0.5, eps=EPS32, case=case, output=output,
        d_output=np.ones(2), noise=lambda i: np.full(2, size * noise),
    )  # fmt: skip
    wide = SimpleNamespace(gradients={0: np.full(2, size)}, output=output)
    (loss,) = low_precision.losses(claim, wide)
    assert loss.verdict == expected
    assert loss.index == (int(expected != "right" or found[1] != 1),)


def test_an_error_in_float32_beside_a_kink_is_wrong():
    def backward(x, d_y):
        return (x > 0) * d_y * x.dtype.type(1 + 0.1 * (x.dtype == np.float32))

    assert verdict(lambda x: np.maximum(x, 0), backward, [0.0, 1.0], dtype=np.float32).verdict == "wrong"
    assert verdict(lambda x: np.maximum(x, 0), backward, [0.0, 1.0]).verdict == "kink"


def test_each_input_has_its_own_precision():
    case = real_case(lambda x, w, z: x * w, np.ones(2), np.ones(2, np.float32), np.ones(2, np.float16))
    assert [case.precision(i).name for i in range(3)] == ["float64", "float32", "float16"]
    assert [x.dtype for x in case.widened().inputs] == [np.float64] * 3
    claim = Claim(
        real_case(lambda x, w: x * w, np.ones(2), np.ones(2, np.float32), backward=lambda x, w, d: (d * w, d * x)),
        np.random.default_rng(0),
    )
    assert claim.precision.name == "float32"


def test_the_coarsest_output_gives_the_precision():
    case = real_case(lambda x: (x, x.astype(np.float32)), np.ones(2), backward=lambda x, d: d[0] + d[1])
    assert Claim(case, np.random.default_rng(0)).precision.name == "float32"


def test_a_gradient_of_the_output_is_rounded_to_its_type():
    output = Output(np.ones(2, np.float32), np.asarray)
    output.precisions = [Precision("bfloat16", 2.0**-7, np.dtype(np.float32))]
    assert output.rounded(np.array([1.001, 3.0], np.float32)).tolist() == [1, 3]


def test_a_backward_pass_meets_what_the_function_keeps_for_its_inputs():
    kept = {}

    def product(x, w):
        kept.update(x=x, w=w)
        return x * w

    pair = np.array([[0.1, 0.2], [0.3, 0.7]])
    case = real_case(product, *pair, backward=lambda x, w, d_y: (kept["w"] * d_y, kept["x"] * d_y))
    claim = Claim(case, np.random.default_rng(0))
    assert all(claim.noise(i).any() for i in range(2))


def test_bfloat16_is_the_precision_of_its_own_input_alone():
    case = real_case(lambda x, w: x * w, np.ones(2, np.float32), np.ones(2, np.float32))
    case.leaves[1] = ("w", SimpleNamespace(dtype="bfloat16"))  # as it is named in all libraries
    assert [case.precision(i).name for i in range(2)] == ["float32", "bfloat16"]


def test_the_parts_of_a_complex_number_have_its_size():
    case = real_case(np.square, np.array([3 + 4j, 1e-9 - 2j]))
    for i in range(2):
        np.testing.assert_allclose(case.sizes(i), [5, 2])


def test_rounding_changes_a_slope_as_much_in_one_direction_as_in_the_other():
    case = real_case(np.square, np.array([0.1, 0.2, -0.4]), backward=lambda x, d_y: 2 * x * d_y)
    for seed in range(4):
        claim = Claim(case, np.random.default_rng(seed))
        for direction in np.eye(3):
            assert claim.noise_along(0, direction) == claim.noise_along(0, -direction) > 0
