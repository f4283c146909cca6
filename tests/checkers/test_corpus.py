"""The corpus on which gradient checkers are compared is what it says: right gradients are right, wrong ones wrong.

``python tests/checkers/compare.py`` compares the checkers; these tests need none of them.
"""

import dataclasses
import time

import numpy as np
import pytest
from adapters import OURS, quietly
from compare import Outcome, limit, row, run, tables
from corpus import CORPUS, TWINS, of
from from_gallery import GALLERY, NO_PLAIN_FORM, samples
from reported import REPORTED
from sample import cotangent, measure
from wrong_core import CORE
from wrong_entry import VALUE
from wrong_operations import OPERATIONS

pytestmark = pytest.mark.numpy_only("the corpus consists of functions of NumPy arrays")

OWN = {sample.name: sample for sample in CORPUS if sample.group in ("hard", "reported")}
PRECISE = np.finfo(np.longdouble).eps < 1e-18
"""Whether differences can be taken in a higher precision than float64."""


def test_every_entry_of_the_gallery_is_there_or_has_a_reason():
    names = {entry.name for entry in (*OPERATIONS, *CORE)}
    assert {sample.name for sample in GALLERY} | NO_PLAIN_FORM.keys() == names
    assert len(GALLERY) + len(NO_PLAIN_FORM) == len(names)
    assert {entry.name for entry in OPERATIONS if entry.message == VALUE} <= NO_PLAIN_FORM.keys()


def test_the_corpus_has_enough_hard_ones_with_a_reason_each():
    hard = [sample for sample in CORPUS if sample.group == "hard"]
    assert len(hard) >= 60
    assert all(sample.right and sample.note for sample in hard)
    assert len({sample.name for sample in CORPUS}) == len(CORPUS)
    assert all(sample.source for sample in REPORTED)
    assert len(of("float16", right=True)) >= 40


@pytest.mark.skipif(not PRECISE, reason="longdouble is no more precise than float64 here")
@pytest.mark.parametrize("name", OWN)
def test_differences_in_a_higher_precision_agree_with_the_labels(name):
    sample = OWN[name]
    for dtype in sample.dtypes:
        error, jump = measure(sample, dtype)
        allowed = max(sample.tolerance, sample.rounding * float(np.finfo(dtype).eps))
        assert (error <= allowed) == sample.right, f"{dtype}: the gradient is off by {error:.1e}"
        assert (jump > 0.1) == sample.kink, f"{dtype}: the slopes on both sides differ by {jump:.1e}"


@pytest.mark.parametrize(("wrong", "right"), [*zip(GALLERY, samples(wrong=False), strict=True)], ids=lambda s: s.name)
def test_the_gallery_is_wrong_in_each_precision(wrong, right):
    """The tests of the gallery hold that its right versions are right."""
    for dtype in wrong.dtypes:
        d_y = cotangent(right, "float64")
        inputs = wrong.at(dtype)
        given = d_y.astype(dtype)
        with np.errstate(all="ignore"):
            found = wrong.backward(*inputs, given)
        expected = right.backward(*[x.astype("float64") if i in wrong.moving else x for i, x in enumerate(inputs)], d_y)
        if wrong.name == "softmax: writes into d_y":
            assert not np.array_equal(given, d_y.astype(dtype))
            continue
        off = [distance(found[i], expected[i]) for i in wrong.moving]
        assert max(off) > 3e-6, f"{dtype}: the gradient is off by {max(off):.1e} only"


def distance(found, expected):
    """Return the largest difference, relative to the largest entry; infinite where the shape differs."""
    if found is None or expected is None:
        return 0.0 if found is expected else np.inf
    if found.shape != expected.shape or not np.isfinite(found).all():
        return np.inf
    return np.abs(found - expected).max() / max(np.abs(found).max(), np.abs(expected).max())


def test_a_comparison_counts_verdicts_and_calls():
    chosen = [OWN["x² at 1e6"], next(sample for sample in GALLERY if sample.name == "tanh: input for output")]
    results = run(OURS, chosen, "float64", repeats=1)
    assert [result.verdict for result in results] == ["accepted", "rejected"]
    assert all(result.calls > 5 and result.seconds > 0 for result in results)
    line = next(line for line in tables({"float64": {OURS: results}}).splitlines() if line.startswith(f"| {OURS} |"))
    assert line.startswith(f"| {OURS} | 1 of 1 | 1 of 1 | 0 | 0 | 0 | 0 |")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_our_check_calls_no_right_gradient_wrong_and_accepts_no_wrong_one(dtype):
    """Each gallery entry runs in float64 or in float32; the tests of the gallery try all of them in float64."""
    hidden = {sample.name for sample in TWINS if not sample.refutable}
    left_out = {sample.name for sample in {"float64": GALLERY[::2], "float32": GALLERY[1::2]}.get(dtype, ())}
    for right, allowed in ((True, {"accepted", "kink", "undecided"}), (False, {"rejected"})):
        chosen = [sample for sample in of(dtype, right) if sample.name not in left_out]
        results = run(OURS, chosen, dtype, repeats=1)
        failed = [(result.name, result.verdict) for result in results if result.verdict not in allowed]
        assert not [found for found in failed if found[0] not in hidden or found[1] != "undecided"]
        assert {result.name for result in results if result.verdict == "kink"} <= {
            sample.name for sample in CORPUS if sample.kink
        }


def test_twins_have_a_gradient_in_each_precision_so_they_are_wrong():
    assert len(TWINS) >= 60
    for sample in TWINS:
        for dtype in sample.dtypes:
            with np.errstate(all="ignore"):
                gradients = [g for g in sample.backward(*sample.at(dtype), cotangent(sample, dtype)) if g is not None]
            assert all(np.isfinite(g).all() for g in gradients), f"{sample.name}, {dtype}"
            assert any(np.any(g) for g in gradients), f"{sample.name}, {dtype}"


@pytest.mark.skipif(not PRECISE, reason="longdouble is no more precise than float64 here")
@pytest.mark.parametrize("name", ["x² at 1e6", "sine in float16", "ReLU at 0, slope 1/2", "norm near 0"])
def test_a_small_mistake_would_be_seen(name):
    sample = OWN[name]

    def backward(*inputs_and_d_y):
        return [gradient * 1.001 for gradient in sample.backward(*inputs_and_d_y)]

    assert measure(dataclasses.replace(sample, backward=backward), "float64")[0] > 3e-4


def test_a_row_counts_each_verdict_and_compares_times_with_those_of_another():
    found = [
        Outcome("a", right, kink, verdict, "", seconds, 4)
        for right, kink, verdict, seconds in (
            (True, False, "accepted", 1.0),
            (True, True, "kink", 2.0),
            (True, False, "kink", 2.0),  # there is no kink, so this is no answer
            (True, False, "undecided", 2.0),
            (True, False, "rejected", 2.0),
            (True, False, "cannot run", 2.0),
            (False, False, "rejected", 8.0),
            (False, False, "undecided", 8.0),
            (False, False, "cannot run", 8.0),
        )
    ]
    other = [Outcome("a", True, False, "accepted", "", 2.0, 4)]
    assert row("b", found, other) == "| b | 1 of 2 | 1 of 5 | 1 | 2 | 1 | 2 | 1.00 | 4.00 | 4 |"


def test_a_checker_that_does_not_end_gives_no_answer():
    def wait(forward, backward, inputs):
        with limit(0.01):
            time.sleep(10)

    assert quietly(wait, None, None, []) == ("cannot run", "no answer within 0.01 seconds")


def test_an_exception_is_a_rejection():
    def fail(forward, backward, inputs):
        raise TypeError("float16 is not supported")

    assert quietly(fail, None, None, []) == ("rejected", "TypeError: float16 is not supported")
