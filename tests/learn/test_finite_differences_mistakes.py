"""Chapter 4: wrong answers, each of which must be refused with the words that help."""

import re

import numpy as np
import pytest

from minitransformer.learn import find
from minitransformer.learn.referee import judge


def measured(f, x, d_y, h=1e-5, *, quotient=None):
    """Measure a gradient; quotient makes it wrong."""
    quotient = quotient or (lambda up, here, down: (d_y * (up - down)).sum() / (2 * h))
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        d_x[index] = quotient(f(x + step), f(x), f(x - step))
    return d_x


def measuring(quotient):
    return lambda f, x, d_y, h=1e-5: measured(f, x, d_y, h, quotient=lambda *values: quotient(d_y, h, *values))


def moved_in_place(f, x, d_y, h=1e-5):
    x, d_x = x.copy(), np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + h
        up = f(x)
        x[index] = kept - h
        down = f(x)
        x[index] = kept
        d_x[index] = (d_y * (up - down)).sum() / (2 * h)
    return d_x


def moved_for_good(f, x, d_y, h=1e-5):
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        x[index] += h
        up = f(x).copy()
        x[index] -= 2 * h
        d_x[index] = (d_y * (up - f(x))).sum() / (2 * h)
    return d_x


def own_step(f, x, d_y, h=1e-5):
    return measured(f, x, d_y)


def error(a, n, floor, *, top=None, difference=np.abs, worst=np.max, finite=True):
    if finite and not (np.isfinite(a).all() and np.isfinite(n).all()):
        return np.inf
    scale = np.maximum(np.maximum(np.abs(a), np.abs(n)), floor) if top is None else top(a, n, floor)
    with np.errstate(all="ignore"):
        return worst(difference(a - n) / scale)


def erring(**wrong):
    return lambda a, n, floor: error(a, n, floor, **wrong)


def sloping(claimed=None, measured=None):
    """Return both slopes, one of them by a wrong formula."""

    def slopes(f, x, d_y, d_x, p, h):
        claim = claimed(d_x, p) if claimed else (d_x * p).sum()
        slope = measured(f, x, d_y, p, h) if measured else (d_y * (f(x + h * p) - f(x - h * p))).sum() / (2 * h)
        return claim, slope

    return slopes


def entry_by_entry(f, x, d_y, d_x, p, h):
    return (d_x * p).sum(), (measured(f, x, d_y, 1e-5) * p).sum()


def checker(near, *, cotangent=None, shapes=True):
    """Return a checker with its own idea of what is near enough."""

    def check(forward, backward, x):
        y = forward(x)
        d_y = cotangent(y.shape) if cotangent else np.random.default_rng(3).normal(size=y.shape)
        a, n = backward(x, d_y), measured(forward, x, d_y)
        if shapes and a.shape != x.shape:
            return False
        return near(a, n, np.abs(d_y * y).sum())

    return check


def relative(a, n, size, floor=None):
    floor = 1e-5 * size if floor is None else floor
    return np.abs(a - n) / np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)


WRONG = [
    ("central-difference", lambda f, x, h: (f(x + h) - f(x)) / h, "it is the forward difference"),
    ("central-difference", lambda f, x, h: (f(x) - f(x - h)) / h, "it is the backward difference"),
    ("central-difference", lambda f, x, h: (f(x + h) - f(x - h)) / h, "the two points are 2 \\* h apart"),
    ("central-difference", lambda f, x, h: (f(x + h) - f(x - h)) / 2 * h, "put brackets around 2 \\* h"),
    ("central-difference", lambda f, x, h: (f(x + h / 2) - f(x - h / 2)) / h, "with the step h / 2"),
    ("central-difference", lambda f, x, h: (f(x - h) - f(x + h)) / (2 * h), "the sign is wrong"),
    ("central-difference", lambda f, x, h: (f(x + 1e-5) - f(x - 1e-5)) / 2e-5, "is not right yet"),
    ("measured-gradient", measuring(lambda d, h, up, at, down: (up - down).sum() / (2 * h)), "d_y is missing"),
    ("measured-gradient", measuring(lambda d, h, up, at, down: (d * (up - at)).sum() / h), "to one side"),
    ("measured-gradient", measuring(lambda d, h, up, at, down: (d * (at - down)).sum() / h), "to the left"),
    ("measured-gradient", measuring(lambda d, h, up, at, down: (d * (up - down)).sum() / h), "divide by 2 \\* h"),
    (
        "measured-gradient",
        measuring(lambda d, h, up, at, down: d.sum() * (up - down).sum() / (2 * h)),
        "the values are summed before they meet d_y",
    ),
    ("measured-gradient", moved_in_place, "f returned a view of x"),
    ("measured-gradient", moved_for_good, "x was changed in place"),
    ("measured-gradient", own_step, "with a step of its own"),
    ("relative-error-with-a-floor", erring(top=lambda a, n, floor: 1.0), "it is the absolute error"),
    ("relative-error-with-a-floor", erring(worst=np.mean), "it is the mean over all entries"),
    ("relative-error-with-a-floor", erring(difference=lambda d: d), "the sign of a - n counts"),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a) + np.abs(n), floor)),
        "it is relative to the sum of both",
    ),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), floor)),
        "relative to a alone",
    ),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.abs(n), floor)),
        "relative to n alone",
    ),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.maximum(a, n), floor)),
        "the signs of a and n count in the denominator",
    ),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), np.abs(n))),
        "the floor is forgotten",
    ),
    (
        "relative-error-with-a-floor",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), np.abs(n)) + floor),
        "is not right yet",
    ),
    ("relative-error-with-a-floor", erring(finite=False), "if a has an entry nan"),
    ("relative-error-with-a-floor", erring(worst=lambda e: e), "wrong shape"),
    ("a-cotangent-that-shows-it", lambda x: np.ones(x.shape), "All entries of a row are the same number"),
    ("a-cotangent-that-shows-it", lambda x: np.zeros(x.shape), "All entries of a row are the same number"),
    ("a-cotangent-that-shows-it", lambda x: np.ones(x.shape) * np.arange(len(x))[:, None], "All entries of a row"),
    ("a-cotangent-that-shows-it", lambda x: np.ones(x.shape) + 1e-9 * x, "All entries of a row are the same number"),
    (
        "a-cotangent-that-shows-it",
        lambda x: np.random.default_rng(0).normal(size=x.shape[-1]),
        "d_y has the wrong shape",
    ),
    ("a-cotangent-that-shows-it", lambda x: np.full(x.shape, np.nan), "an array of finite numbers"),
    ("a-cotangent-that-shows-it", lambda x: 1.0, "an array of finite numbers"),
    ("along-one-direction", sloping(claimed=lambda d_x, p: d_x.sum()), "claimed slope.*p is missing"),
    ("along-one-direction", sloping(claimed=lambda d_x, p: (d_x * p).mean()), "claimed slope.*it is the mean"),
    ("along-one-direction", sloping(claimed=lambda d_x, p: d_x * p), "not yet summed"),
    (
        "along-one-direction",
        sloping(measured=lambda f, x, d, p, h: (f(x + h * p) - f(x - h * p)).sum() / (2 * h)),
        "measured slope.*d_y is missing",
    ),
    (
        "along-one-direction",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h * p) - f(x - h * p))).sum() / h),
        "divide by 2 \\* h",
    ),
    (
        "along-one-direction",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h) - f(x - h))).sum() / (2 * h)),
        "measured slope.*p is missing",
    ),
    (
        "along-one-direction",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h * p) - f(x))).sum() / h),
        "a difference to one side",
    ),
    ("along-one-direction", lambda *given: sloping()(*given)[::-1], "it is the measured slope; that comes second"),
    ("along-one-direction", entry_by_entry, "Two evaluations are enough|is not right yet"),
    ("along-one-direction", lambda *given: sloping()(*given)[0], "Return two numbers"),
    ("write-the-checker", lambda forward, backward, x: True, "accepts a wrong gradient: tanh with 1 - x"),
    ("write-the-checker", lambda forward, backward, x: False, "refuses a right gradient: tanh"),
    ("write-the-checker", checker(lambda a, n, size: np.array_equal(a, n)), "How near is near enough"),
    (
        "write-the-checker",
        checker(lambda a, n, size: (relative(a, n, size) < 1e-5).all(), cotangent=np.ones),
        "softmax, claimed to be 0.*Take a random d_y",
    ),
    ("write-the-checker", checker(lambda a, n, size: relative(a, n, size).mean() < 1e-2), "one entry off by 1 %"),
    ("write-the-checker", checker(lambda a, n, size: (a - n < 1e-5 * np.abs(n)).all()), "without its sign"),
    (
        "write-the-checker",
        checker(lambda a, n, size: not (relative(a, n, size) > 1e-5).any()),
        "All comparisons with NaN",
    ),
    (
        "write-the-checker",
        checker(lambda a, n, size: (relative(a, n, size) < 1e-5).all(), shapes=False),
        "Compare the shapes first",
    ),
    ("write-the-checker", checker(lambda a, n, size: np.allclose(a, n)), "These gradients are tiny"),
    ("write-the-checker", checker(lambda a, n, size: (np.abs(a - n) < 1e-5).all()), "10 x|tiny"),
    (
        "write-the-checker",
        checker(lambda a, n, size: (relative(a, n, size, floor=1e-6) < 1e-5).all()),
        "These gradients are tiny",
    ),
    (
        "write-the-checker",
        checker(lambda a, n, size: (relative(a, n, size, floor=1e-300) < 1e-5).all()),
        "The measurement is rounding noise",
    ),
    ("write-the-checker", checker(lambda a, n, size: float(np.abs(a - n).max())), "should return True or False"),
]


@pytest.mark.parametrize(("name", "answer", "cause"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_answer_is_refused_with_its_cause(name, answer, cause):
    verdict = judge(find(name), [answer])
    assert not verdict.right
    assert verdict.solved
    assert re.search(cause, " ".join(verdict.words.split())), verdict.words
    assert max(map(len, verdict.told(name).splitlines())) <= 80


OTHERS = [
    ("central-difference", lambda f, x, h: f(x + h) / (2 * h) - f(x - h) / (2 * h)),
    ("measured-gradient", measuring(lambda d, h, up, at, down: ((d * up).sum() - (d * down).sum()) / (2 * h))),
    ("relative-error-with-a-floor", erring(worst=lambda e: float(max(e.ravel())))),
    ("a-cotangent-that-shows-it", lambda x: np.arange(x.size).reshape(x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.random.default_rng().normal(size=x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.eye(*x.shape)),
    *(
        ("write-the-checker", checker(lambda a, n, size, tolerance=tolerance: (relative(a, n, size) < tolerance).all()))
        for tolerance in (1e-3, 1e-4, 1e-5, 1e-6)
    ),
    (
        "write-the-checker",  # relative to the gradient as a whole, with a floor that knows y
        checker(lambda a, n, size: bool(np.abs(a - n).max() <= 1e-5 * np.abs(n).max() + 1e-9 * size)),
    ),
    ("write-the-checker", checker(lambda a, n, size: np.allclose(a, n, rtol=1e-5, atol=1e-9 * size))),
]


@pytest.mark.parametrize(("name", "answer"), OTHERS)
def test_other_right_answers_pass(name, answer):
    """What is right need not look like the solution."""
    verdict = judge(find(name), [answer])
    assert verdict.right, verdict.words


@pytest.mark.parametrize("seed", range(20))
def test_a_right_checker_passes_with_any_cotangent(seed):
    rng = np.random.default_rng(seed)
    draw = [
        lambda shape: rng.normal(size=shape),
        lambda shape: rng.uniform(0.5, 2.0, shape) * rng.choice((-1.0, 1.0), shape),
    ]
    for cotangent in draw:
        answer = checker(lambda a, n, size: bool((relative(a, n, size) < 1e-5).all()), cotangent=cotangent)
        verdict = judge(find("write-the-checker"), [answer])
        assert verdict.right, verdict.words


def test_each_exercise_has_two_wrong_answers():
    names = [name for name, *_ in WRONG]
    assert all(names.count(exercise) >= 2 for exercise in names)
    assert {find(name).chapter for name in names} == {find("write-the-checker").chapter}
    assert len(set(names)) == 6
