"""Feedback: each wrong answer is told where it is wrong and, where the pattern is clear, why."""

import re
from dataclasses import replace

import numpy as np
import pytest
from learn.verdicts import check_figures, comparisons, words_of
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.apps.learn import find
from minitransformer.apps.learn.referee import Verdict, judge
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.apps.learn.verdict import (
    Unsolved,
    Wrong,
    agree,
    check_bits,
    check_gradients,
    compare,
    judge_all_cases,
    refuse_writing,
)
from minitransformer.apps.learn.watch import watch

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")
RNG = np.random.default_rng(3)
T, D = 5, 4
X = RNG.normal(size=(T, D))
EXPECTED = RNG.normal(size=(T, D))


def softmax(x):
    return ops.softmax.forward(x)[0]


def softmax_backward(d_y):
    y = softmax(X)
    return y * (d_y - (y * d_y).sum(axis=-1, keepdims=True))


def changed(*places, by=2.0):
    found = EXPECTED.copy()
    found[tuple(zip(*places, strict=True))] += by
    return found


A, W, BIAS = RNG.normal(size=(3, 4)), RNG.normal(size=(D, 3)), RNG.normal(size=3)
HALF, TWO, COUNTS = np.array(0.5), np.array(-2.0), np.eye(3) + np.arange(3)
SIZES = (0.5, "large"), (-0.5, "small")
SHIFTED = np.where(np.arange(X.size).reshape(X.shape) == 11, 1 + 1e-4, 1.0)


def test_what_is_right_passes():
    agree("y", EXPECTED, EXPECTED)
    agree("y", EXPECTED + 1e-12, EXPECTED)
    agree("y", 3, np.array(3))
    agree("q", np.arange(3), np.arange(3.0))
    agree("y", np.array([True, False]), np.array([True, False]))
    agree("y", np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    check_bits("y", X, X.copy())
    check_gradients(softmax_backward, softmax, {"x": X})
    check_gradients(lambda d: (d @ W.T, A.T @ d), np.matmul, {"a": A, "w": W})
    check_gradients(lambda d: np.array([TWO, HALF]) * d, np.multiply, {"a": HALF, "b": TWO})
    check_gradients(lambda d: (0 * d.astype(int), d), lambda x, y: y + 0 * x, {"x": X, "y": X})
    assert watch(np.negative)(1.0) == -1.0
    assert watch("b") == "b"


RESULTS = [
    (changed((3, 1), (0, 2)), EXPECTED, ""),
    (EXPECTED.T, EXPECTED, "transposed"),
    (-EXPECTED, EXPECTED, "sign"),
    (np.zeros((T, D)), EXPECTED, "zero everywhere"),
    *((EXPECTED * D**power, EXPECTED, rf"sqrt\(Dk\) = 2 times too {size}") for power, size in SIZES),
    (EXPECTED * 7, EXPECTED, "B = 7 times too large"),
    (EXPECTED / 7, EXPECTED, "B = 7 times too small"),
    (EXPECTED * 0.3, EXPECTED, r"0\.3 times"),
    (3 * EXPECTED.astype("f"), EXPECTED, r"\b3 times"),
    (COUNTS.T, COUNTS, "transposed"),
    (EXPECTED, EXPECTED.sum(axis=0), "sum is missing.* axis 0 [^=]*$"),
    (EXPECTED, EXPECTED.sum(axis=1, keepdims=True), "sum is missing.* axis 1 .*keepdims=True"),
    (EXPECTED.sum(axis=0), EXPECTED, "sum over axis 0"),
    (np.triu(EXPECTED), EXPECTED, "10 entries are zero that should not be"),
    (EXPECTED, np.triu(EXPECTED), "10 entries should be exactly zero"),
    (np.where(EXPECTED > 1, np.nan, EXPECTED), EXPECTED, "NaN"),
    (np.where(EXPECTED > 1, np.inf, EXPECTED), EXPECTED, "infinities"),
    (1 / 3 + 1e-8, np.array(1 / 3), ""),
    (1, np.array(1 - 3e-8), ""),
    (np.array([1e6, 1.001, 1.0]), np.ones(3), ""),  # beside a large wrong entry a small one
    *((np.full(shape, 2.5), np.full(shape, -1.5), "") for shape in ((1,), (1, 1))),
    (RNG.normal(size=(T, D)), EXPECTED, ""),
    (changed((0, 0), by=1.0), EXPECTED, ""),
    (EXPECTED.astype(int), EXPECTED, "int64"),
    (np.zeros((T, D), dtype=int), EXPECTED, "int64"),
    (EXPECTED > 0, EXPECTED, "True and False"),
]
"""What was found, what is right, and a pattern of the cause that is named; without one, no cause is."""


@pytest.mark.parametrize(("found", "expected", "cause"), RESULTS)
def test_a_wrong_result_is_told_with_its_worst_entry_and_its_cause(found, expected, cause):
    with comparisons() as compared:
        words = words_of(lambda: agree("d_x", found, expected, sizes={"Dk": D, "B": 7}))
    text = Verdict(False, words).format("answer")
    check_figures(text, compared[0])
    assert max(map(len, text.splitlines())) <= 80
    told = " ".join(words.partition("  cause ")[2].split("\n\n")[0].split())
    assert re.search(cause, told) if cause else not told


A_GRADIENT = {
    "a row sum": (
        softmax,
        {"x": X},
        lambda d: softmax(X) * d,
        {"mistakes": lambda d: {"d_x": {"a row sum is missing": softmax(X) * d}}},
    ),
    "d_w .*transposed": (np.matmul, {"a": A, "w": W}, lambda d: (d @ W.T, d.T @ A), {}),
    "d_b .*sum is missing.* axis 0": (lambda w, b: X @ w + b, {"w": W, "b": BIAS}, lambda d: (X.T @ d, d), {}),
    r"1 of 20 .*at \[2, 3\]": (softmax, {"x": X}, lambda d: SHIFTED * softmax_backward(d), {}),
    "d_y has the wrong shape.* x = 0.5, y = -2": (np.add, {"x": HALF, "y": TWO}, lambda d: (np.float32(d), [d]), {}),
    "zero everywhere.* x = 0.5, d_z = ": (lambda x: x * x, {"x": HALF}, lambda d: 0 * d, {"output": "z"}),
    "int64": (lambda x, y: y + 0 * x, {"x": X, "y": X}, lambda d: (np.ones(d.shape, int), d), {}),
}
"""Patterns of the verdicts on gradients: of the function, its inputs, the claim, and options."""


@pytest.mark.parametrize("told", A_GRADIENT)
def test_a_wrong_gradient_is_told_by_the_same_rules(told):
    function, inputs, backward, options = A_GRADIENT[told]
    with comparisons() as compared:
        words = words_of(lambda: check_gradients(backward, function, inputs, **options))
    wrong = next(one for one in compared if one.wrong.any())
    check_figures(Verdict(False, words).format("answer"), wrong)
    assert re.search(told, " ".join(words.split()))


REFUSED = [
    ("d_x is None", lambda: agree("d_x", None, EXPECTED)),
    (r"d_x .*\(5, 4\).* a str", lambda: agree("d_x", "five", EXPECTED)),
    ("d_x is float32", lambda: agree("d_x", EXPECTED.astype("f"), EXPECTED)),
    ("d_x .*float64: indices", lambda: agree("d_x", np.array([1.0, 2.0]), np.array([1, 2]))),
    ("d_x is float32", lambda: check_gradients(lambda d: softmax_backward(d).astype("f"), softmax, {"x": X})),
    (
        r"d_a, d_b,.* 2 results, found .*\(2, 3\)",
        lambda: check_gradients(lambda d: np.ones((2, 3)), np.multiply, {"a": HALF, "b": TWO}),
    ),
    ("d_x: .*one result, found 3", lambda: check_gradients(lambda d: (d, d.sum(0), d.sum(1)), lambda x: x, {"x": X})),
    ("y is nearly right: 1 of 20", lambda: check_bits("y", np.nextafter(X, np.where(X[1, 1] == X, 9, X)), X)),
    ("^x was .*array", lambda: refuse_writing(x=(X + 1, X))),
    ("^steps was .*list", lambda: refuse_writing(steps=([1, 2], [2, 1]))),
    ("^steps was .*dict", lambda: refuse_writing(steps=({"a": X}, {"a": X, "b": X}))),
    ("^steps was .*array", lambda: refuse_writing(steps=(X[0], X))),
    (r'^kept\["w"\] was .*array', lambda: watch(lambda kept: kept["w"].fill(0))({"x": X, "w": X})),
    ("^d_y was .*array", lambda: watch(lambda x, d_y: d_y.fill(0))(X, X)),
    ("^argument 2 was .*list", lambda: watch(lambda x, *rest: rest[0].sort())(X, [2, 1])),
]


@pytest.mark.parametrize(("told", "call"), REFUSED, ids=[told for told, _ in REFUSED])
def test_what_is_no_such_result_is_refused_with_what_was_found(told, call):
    assert re.search(told, words_of(call))


@pytest.mark.parametrize(("scale", "shown"), [(1e-16, "found 0,"), (-1e-16, "found 0,"), (1e-9, "found 1e-09,")])
def test_rounding_errors_are_shown_as_0(scale, shown):
    for expected in (np.array(0.5), np.array([0.5, np.inf])):
        found = np.where(np.isfinite(expected), scale, expected)
        with pytest.raises(Wrong, match=re.escape(shown)):
            agree("y", found, expected)


def test_unsolved_parts_are_found_wherever_they_are():
    for found in (..., np.array([..., 1.0], dtype=object)):
        with pytest.raises(Unsolved):
            agree("y", found, EXPECTED)


def test_a_cause_is_printed_only_if_it_explains_every_case():
    def check(answer):
        for eps in (0.1, 0.01):
            x = np.array([1.0, 2.0])
            agree(f"y, for eps = {eps},", answer(x, eps), x + eps, mistakes={"eps is missing": x})

    with pytest.raises(Wrong, match="eps is missing"):
        judge_all_cases(lambda: check(lambda x, eps: x))
    with pytest.raises(Wrong, match=r"for eps = 0.1, is not right yet") as caught:
        judge_all_cases(lambda: check(lambda x, eps: x + 1e-7 if eps > 0.05 else x + eps))
    assert "cause" not in str(caught.value)


def test_a_right_gradient_on_a_narrow_flank_is_found_right_unless_the_function_is_called_smooth():
    x = np.array([3 + 0.3e-7])
    given = (lambda x: np.tanh(1e7 * (x - 3)), {"x": x}, np.ones(1), [1e7 / np.cosh(1e7 * (x - 3)) ** 2])
    assert [compare(*given).verdict, compare(*given, smooth=True).verdict] == ["right", "wrong"]


def relative(a, n, floor, finite):
    return (np.abs(a - n) / np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)).max() if finite else np.inf


@cases_from_toml
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_false_cause_is_not_printed(name, answer, said, false):
    names = {"np": np, "softmax": softmax, "relative": relative}
    exec(answer if "def " in answer else f"answer = {answer}", names)
    verdict = judge(find(name), [names["answer"]])
    told = " ".join(verdict.words.split())
    assert not verdict.right
    assert said in told
    assert false not in told


@cases_from_toml
def test_a_checker_by_norms_is_refuted(near):
    entries = "bool((np.abs(a - n) <= tolerance * scale).all())"
    for t in (1e-3, 1e-5, 1e-6):
        norms = f"bool({near.replace(' t ', f' {t} ').replace(' z', ' 1e-9 * np.abs(d_y * y).sum()')})"
        words = judge(find("write-the-checker"), [solution_of("write-the-checker", (entries, norms))]).words
        assert "check accepts a wrong gradient: tanh" in words


@pytest.mark.parametrize("n", [(0, 1), (2, 0), (4, 4)])
def test_a_mask_with_a_wrong_entry_is_told_by_its_entry(n):
    def mask(size):
        found = np.tri(size, dtype=bool)
        found[n if size > 4 else (0, 0)] ^= True
        return found

    assert judge(find("causal-mask"), [mask]).words.startswith("mask is not right yet.")


def test_a_fault_of_the_check_is_called_one(monkeypatch):
    names = {}
    exec("def check(backward): return backward(1)[3]", names)
    exercise = replace(find("product-rule"), check=names["check"])
    verdict = judge(exercise, [lambda x: ()])
    assert verdict.failed
    assert "IndexError: tuple index out of range (<string>, line 1)" in verdict.words
    assert "Line" in judge(exercise, [lambda x: 1 / 0]).words
    assert "TypeError: len() takes exactly one argument (3 given)" in judge(find("product-rule"), [len]).words
    assert "should be a function, found int" in judge(exercise, [3]).words
