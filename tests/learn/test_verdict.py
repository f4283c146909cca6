"""Feedback: each wrong answer is told where it is wrong and, where the pattern is clear, why."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from approved import check_approved
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
    *((found, EXPECTED) for found in (changed((3, 1), (0, 2)), EXPECTED.T, -EXPECTED, np.zeros((T, D)))),
    *((EXPECTED * factor, EXPECTED) for factor in (np.sqrt(D), 1 / np.sqrt(D), 7, 1 / 7, 0.3)),
    (COUNTS.T, COUNTS),
    *((EXPECTED, EXPECTED.sum(axis=axis, keepdims=axis > 0)) for axis in (0, 1)),
    (EXPECTED.sum(axis=0), EXPECTED),
    (np.triu(EXPECTED), EXPECTED),
    (EXPECTED, np.triu(EXPECTED)),
    *((np.where(EXPECTED > 1, bad, EXPECTED), EXPECTED) for bad in (np.nan, np.inf)),
    (1 / 3 + 1e-8, np.array(1 / 3)),
    (1, np.array(1 - 3e-8)),
    (np.array([1e6, 1.001, 1.0]), np.ones(3)),  # beside a large wrong entry a small one
    *((np.full(shape, 2.5), np.full(shape, -1.5)) for shape in ((1,), (1, 1))),
    (RNG.normal(size=(T, D)), EXPECTED),
    (changed((0, 0), by=1.0), EXPECTED),
    *((found, EXPECTED) for found in (None, "five", EXPECTED.astype("f"), 3 * EXPECTED.astype("f"))),
    *((found, EXPECTED) for found in (EXPECTED.astype(int), np.zeros((T, D), dtype=int), EXPECTED > 0)),
    (np.array([1.0, 2.0]), np.array([1, 2])),
]
OTHERS = [
    lambda: check_gradients(
        lambda d: softmax(X) * d,
        softmax,
        {"x": X},
        mistakes=lambda d: {"d_x": {"a row sum is missing": softmax(X) * d}},
    ),
    lambda: check_gradients(lambda d: (d @ W.T, d.T @ A), np.matmul, {"a": A, "w": W}),
    lambda: check_gradients(lambda d: (X.T @ d, d), lambda w, b: X @ w + b, {"w": W, "b": BIAS}),
    lambda: check_gradients(lambda d: SHIFTED * softmax_backward(d), softmax, {"x": X}),
    lambda: check_gradients(lambda d: softmax_backward(d).astype("f"), softmax, {"x": X}),
    lambda: check_gradients(lambda d: (np.float32(d), [d]), np.add, {"x": HALF, "y": TWO}),
    lambda: check_gradients(lambda d: np.ones((2, 3)), np.multiply, {"a": HALF, "b": TWO}),
    lambda: check_gradients(lambda d: 0 * d, lambda x: x * x, {"x": HALF}, output="z"),
    lambda: check_gradients(lambda d: (np.ones(d.shape, int), d), lambda x, y: y + 0 * x, {"x": X, "y": X}),
    lambda: check_gradients(lambda d: (d, d.sum(axis=0), d.sum(axis=1)), lambda x: x, {"x": X}),
    lambda: check_bits("y", np.nextafter(X, np.where(X[1, 1] == X, 9, X)), X),
    lambda: refuse_writing(x=(X + 1, X)),
    lambda: refuse_writing(steps=([1, 2], [2, 1])),
    lambda: refuse_writing(steps=({"a": X}, {"a": X, "b": X})),
    lambda: refuse_writing(steps=(X[0], X)),
    lambda: watch(lambda kept: kept["w"].fill(0))({"x": X, "w": X}),
    lambda: watch(lambda x, d_y: d_y.fill(0))(X, X),
    lambda: watch(lambda x, *rest: rest[0].sort())(X, [2, 1]),
]


def test_what_is_said_of_wrong_results_is_approved():
    texts = []
    for call in [*(partial(agree, "d_x", *case, sizes={"Dk": D, "B": 7}) for case in RESULTS), *OTHERS]:
        with pytest.raises(Wrong) as wrong:
            call()
        texts.append(Verdict(False, str(wrong.value)).format("answer"))
    assert [line for line in "\n".join(texts).splitlines() if len(line) > 80] == []
    check_approved(Path(__file__).parent / "approved_verdicts" / "of-wrong-results.txt", "\n\n---\n\n".join(texts))


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


def test_the_share_of_a_wrong_answer_is_that_of_results_that_are_wholly_right():
    def check():
        for found in ([1.0, 2.0], [1.0, 3.0], [1.0, 2.0], [0.0, 0.0]):
            agree("y", np.array(found), [1.0, 2.0])

    with pytest.raises(Wrong) as caught:
        judge_all_cases(check)
    assert caught.value.share == 0.5


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
    words = "The check itself failed with IndexError: tuple index out of range (<string>, line 1). This is a fault of "
    assert verdict.words == f"{words}minitransformer, not of your code: please report it, with your file."
    assert "Line" in judge(exercise, [lambda x: 1 / 0]).words
    no_lines = judge(find("product-rule"), [len]).words
    assert no_lines == "Calling your code failed with TypeError: len() takes exactly one argument (3 given)"
    assert "should be a function, found int" in judge(exercise, [3]).words
