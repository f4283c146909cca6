"""Feedback: each wrong answer is told where it is wrong and, where the pattern is clear, why."""

from dataclasses import replace

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.apps.learn import find
from minitransformer.apps.learn.referee import judge
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.apps.learn.verdict import (
    Unsolved,
    Wrong,
    agree,
    check_bits,
    check_gradients,
    judge_all_cases,
    refuse_writing,
)
from minitransformer.apps.learn.watch import watch

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")
RNG = np.random.default_rng(3)
B, H, T, D = 2, 3, 5, 4
X = RNG.normal(size=(T, D))
EXPECTED = RNG.normal(size=(T, D))


def told(*arguments, **options):
    with pytest.raises(Wrong) as wrong:
        agree(*arguments, **options)
    assert all(len(line) <= 80 for line in str(wrong.value).splitlines())
    return " ".join(str(wrong.value).split())


def softmax(x):
    return ops.softmax.forward(x)[0]


def test_what_is_right_passes():
    agree("y", EXPECTED, EXPECTED)
    agree("y", EXPECTED + 1e-12, EXPECTED)
    agree("y", 3, np.array(3))
    agree("y", np.array([True, False]), np.array([True, False]))
    agree("y", np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))


def test_the_message_has_name_shape_worst_entry_and_both_numbers():
    found = EXPECTED.copy()
    found[3, 1] += 2
    found[0, 2] -= 0.5
    with pytest.raises(Wrong) as wrong:
        agree("d_x", found, EXPECTED)
    text = str(wrong.value)
    assert text.startswith("d_x is not right yet.")
    assert "(5, 4), as it should be" in text
    assert "2 of 20 are wrong" in text
    assert f"at [3, 1]: found {found[3, 1]:.6g}, should be {EXPECTED[3, 1]:.6g}" in text
    rows = [line[:13].split() for line in text.splitlines()[-T:]]
    assert rows == [["x" if (i, j) in {(3, 1), (0, 2)} else "." for j in range(D)] for i in range(T)]


@pytest.mark.parametrize(
    ("found", "expected", "cause"),
    [
        (EXPECTED.T, EXPECTED, "it is transposed"),
        (np.array(np.eye(3) + np.arange(3)).T, np.eye(3) + np.arange(3), "it is transposed"),
        (-EXPECTED, EXPECTED, "the sign is wrong"),
        (EXPECTED * np.sqrt(D), EXPECTED, "sqrt(Dk) = 2 times too large"),
        (EXPECTED / np.sqrt(D), EXPECTED, "sqrt(Dk) = 2 times too small"),
        (EXPECTED * 7, EXPECTED, "B = 7 times too large"),
        (EXPECTED / 7, EXPECTED, "B = 7 times too small"),
        (EXPECTED * 0.3, EXPECTED, "every entry is 0.3 times what it should be"),
        (EXPECTED, EXPECTED.sum(axis=0), "a sum is missing: the input was broadcast along axis 0"),
        (EXPECTED, EXPECTED.sum(axis=1, keepdims=True), "the sum over that axis, with keepdims=True"),
        (EXPECTED.sum(axis=0), EXPECTED, "there is a sum over axis 0 of the expected result that does not belong"),
        (np.zeros((T, D)), EXPECTED, "it is zero everywhere"),
        (np.triu(EXPECTED), EXPECTED, "entries are zero that should not be"),
        (EXPECTED, np.triu(EXPECTED), "entries should be exactly zero"),
        (EXPECTED * np.where(EXPECTED > 1, np.nan, 1), EXPECTED, "there are NaNs"),
        (np.where(EXPECTED > 1, np.inf, EXPECTED), EXPECTED, "there are infinities"),
    ],
)
def test_a_pattern_in_the_numbers_is_named(found, expected, cause):
    assert cause in told("d_x", found, expected, sizes={"Dk": D, "B": 7})


def test_numbers_that_hardly_differ_are_shown_with_the_digits_that_do():
    assert "found 0.33333334, should be 0.33333333" in told("y", 1 / 3 + 1e-8, np.array(1 / 3))
    assert "found 1, should be 0.99999997" in told("y", 1, np.array(1 - 3e-8))


def test_no_cause_is_named_where_none_is_clear():
    assert "cause" not in told("d_x", RNG.normal(size=(T, D)), EXPECTED, sizes={"Dk": D})
    found = EXPECTED.copy()
    found[0, 0] += 1
    assert "cause" not in told("d_x", found, EXPECTED)


def test_a_known_mistake_is_named_before_any_pattern():
    y = softmax(X)
    words = "the row-sum term is missing"
    with pytest.raises(Wrong, match="row-sum"):
        check_gradients(lambda d_y: y * d_y, softmax, {"x": X}, mistakes=lambda d_y: {"d_x": {words: y * d_y}})


def test_gradients_are_judged_by_finite_differences():
    y = softmax(X)
    check_gradients(lambda d_y: y * (d_y - (y * d_y).sum(axis=-1, keepdims=True)), softmax, {"x": X})
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))
    check_gradients(lambda d: (d @ b.T, a.T @ d), np.matmul, {"a": a, "b": b})
    with pytest.raises(Wrong, match=r"d_b has the wrong shape(.|\n)*transposed"):
        check_gradients(lambda d: (d @ b.T, d.T @ a), np.matmul, {"a": a, "b": b})


def test_a_bias_needs_a_sum():
    w, b = RNG.normal(size=(D, 3)), RNG.normal(size=3)
    with pytest.raises(Wrong, match=r"d_b has the wrong shape(.|\n)*a sum is missing"):
        check_gradients(lambda d: (X.T @ d, d), lambda w, b: X @ w + b, {"w": w, "b": b})


def test_a_small_error_in_one_entry_is_seen():
    y, off = softmax(X), np.where(np.arange(X.size).reshape(X.shape) == 11, 1 + 1e-4, 1.0)
    with pytest.raises(Wrong):
        check_gradients(lambda d: off * y * (d - (y * d).sum(axis=-1, keepdims=True)), softmax, {"x": X})


def test_unsolved_parts_are_found_wherever_they_are():
    for found in (..., np.array([..., 1.0], dtype=object)):
        with pytest.raises(Unsolved):
            agree("y", found, EXPECTED)


def test_what_is_no_result_at_all():
    assert "is there a `return`" in told("y", None, EXPECTED)
    assert "should be an array of shape (5, 4), but it is a str" in told("y", "five", EXPECTED)
    assert "float32" in told("y", EXPECTED.astype("f"), EXPECTED)
    assert "ids should be whole numbers" in told("ids", np.array([1.0, 2.0]), np.array([1, 2]))


def test_an_input_that_was_written_to():
    with pytest.raises(Wrong, match="x was changed in place"):
        refuse_writing(x=(X + 1, X))
    for now, before, kind in (([1, 2], [2, 1], "list"), ({"a": X}, {"a": X, "b": X}, "dict"), (X[0], X, "array")):
        with pytest.raises(Wrong, match=f"steps was changed in place.*Make a new {kind} instead"):
            refuse_writing(steps=(now, before))


def test_an_entry_of_a_dictionary_is_named():
    with pytest.raises(Wrong, match=r'kept\["w"\] was changed in place.*Make a new array'):
        watch(lambda kept: kept["w"].fill(0))({"x": X, "w": X})


def test_an_answer_is_watched_for_writing_to_its_inputs():
    def backward(x, d_y):
        d_y *= 2
        return d_y

    with pytest.raises(Wrong, match="d_y was changed in place"):
        watch(backward)(X.copy(), X.copy())
    with pytest.raises(Wrong, match="argument 2 was changed in place"):
        watch(lambda x, *rest: rest[0].sort())(X, [2, 1])
    assert watch(np.negative)(1.0) == -1.0
    assert watch("b") == "b"


def test_right_numbers_of_another_type_are_told_after_wrong_ones():
    narrow = EXPECTED.astype("f")
    assert told("d_x", narrow, EXPECTED) == "d_x is float32, but the inputs are float64, and so should the result be."
    assert "every entry is 2 times" in told("d_x", 2 * narrow, EXPECTED)
    y = softmax(X)
    with pytest.raises(Wrong, match="d_x is float32"):
        check_gradients(lambda d: (y * (d - (y * d).sum(axis=-1, keepdims=True))).astype("f"), softmax, {"x": X})
    with pytest.raises(Wrong, match="d_y has the wrong shape"):
        check_gradients(lambda d: (np.float32(d), [d]), np.add, {"x": np.array(0.5), "y": np.array(1.5)})


def test_whole_numbers_are_named_where_they_are_wrong():
    assert "your numbers are whole numbers: int64" in told("q", EXPECTED.astype(int), EXPECTED)
    assert "your numbers are whole numbers: int64" in told("q", np.zeros((T, D), dtype=int), EXPECTED)
    assert "your numbers are True and False" in told("q", EXPECTED > 0, EXPECTED)
    agree("q", np.arange(3), np.arange(3.0))


def test_rows_of_one_array_are_results_if_they_have_the_right_shapes():
    a, b = (np.array(n) for n in (0.5, -2.0))
    check_gradients(lambda d: np.array([b, a]) * d, np.multiply, {"a": a, "b": b})
    with pytest.raises(
        Wrong, match=r"Return d_a, d_b, in this order: expected 2 results, found an array of shape\s\(2, 3\)"
    ):
        check_gradients(lambda d: np.ones((2, 3)), np.multiply, {"a": a, "b": b})


def test_inputs_that_are_numbers_are_shown():
    with pytest.raises(Wrong, match=r"inputs +x = 1.5, d_z = -?\d"):
        check_gradients(lambda d: 0 * d, lambda x: x * x, {"x": np.array(1.5)}, output="z")


def test_bits():
    check_bits("y", X, X.copy())
    found = X.copy()
    found[1, 1] = np.nextafter(found[1, 1], 9)
    with pytest.raises(Wrong, match="1 of 20 entries differ in their last bits"):
        check_bits("y", found, X)


def test_a_gradient_of_whole_numbers_may_be_right():
    check_gradients(lambda d: (0 * d.astype(int), d), lambda x, y: y + 0 * x, {"x": X, "y": X})
    with pytest.raises(Wrong, match="d_x is not right yet"):
        check_gradients(lambda d: (np.ones(d.shape, dtype=int), d), lambda x, y: y + 0 * x, {"x": X, "y": X})


def test_several_gradients_where_one_is_wanted_are_counted():
    with pytest.raises(Wrong, match=r"Return d_x: expected one result, found 3"):
        check_gradients(lambda d: (d, d.sum(axis=0), d.sum(axis=1)), lambda x: x, {"x": X})


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
    assert "should be a function, found int" in judge(exercise, [3]).words
