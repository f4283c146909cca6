"""Chapter 4."""

import re

import numpy as np


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


def same_index(f, x, d_y, h=1e-5):
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        d_x[index] = d_y[index] * (f(x + step)[index] - f(x - step)[index]) / (2 * h)
    return d_x


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


def normal(rng):
    return lambda shape: rng.normal(size=shape)


def away_from_zero(rng):
    return lambda shape: rng.uniform(0.5, 2.0, shape) * rng.choice((-1.0, 1.0), shape)


def relative(a, n, size, floor=None):
    floor = 1e-5 * size if floor is None else floor
    return np.abs(a - n) / np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)


wrong = [
    ("central-difference", "it is the forward difference", lambda f, x, h: (f(x + h) - f(x)) / h),
    ("central-difference", "it is the backward difference", lambda f, x, h: (f(x) - f(x - h)) / h),
    ("central-difference", "the two points are 2 * h apart", lambda f, x, h: (f(x + h) - f(x - h)) / h),
    ("central-difference", "put brackets around 2 * h", lambda f, x, h: (f(x + h) - f(x - h)) / 2 * h),
    ("central-difference", "with the step h / 2", lambda f, x, h: (f(x + h / 2) - f(x - h / 2)) / h),
    ("central-difference", "the sign is wrong", lambda f, x, h: (f(x - h) - f(x + h)) / (2 * h)),
    ("central-difference", "only f(x - h) is divided", lambda f, x, h: f(x + h) - f(x - h) / (2 * h)),
    (
        "relative-error-with-a-floor",
        "the largest number of the whole array",
        lambda a, n, floor: np.abs(a - n).max() / max(np.abs(a).max(), np.abs(n).max(), floor),
    ),
    ("central-difference", "is not right yet", lambda f, x, h: (f(x + 1e-5) - f(x - 1e-5)) / 2e-5),
    ("measured-gradient", "d_y is missing", measuring(lambda d, h, up, at, down: (up - down).sum() / (2 * h))),
    ("measured-gradient", "only the entry of y with the same index", same_index),
    ("measured-gradient", "one-sided difference", measuring(lambda d, h, up, at, down: (d * (up - at)).sum() / h)),
    ("measured-gradient", "to the left", measuring(lambda d, h, up, at, down: (d * (at - down)).sum() / h)),
    ("measured-gradient", "divide by 2 * h", measuring(lambda d, h, up, at, down: (d * (up - down)).sum() / h)),
    (
        "measured-gradient",
        "the values are summed before they are multiplied by d_y",
        measuring(lambda d, h, up, at, down: d.sum() * (up - down).sum() / (2 * h)),
    ),
    ("measured-gradient", "f returned a view of x", moved_in_place),
    (
        "measured-gradient",
        "put brackets around 2 * h",
        measuring(lambda d, h, up, at, down: (d * (up - down)).sum() / 2 * h),
    ),
    ("measured-gradient", "x was changed in place", moved_for_good),
    ("measured-gradient", "with another step", own_step),
    ("relative-error-with-a-floor", "it is the absolute error", erring(top=lambda a, n, floor: 1.0)),
    ("relative-error-with-a-floor", "it is the mean over all entries", erring(worst=np.mean)),
    ("relative-error-with-a-floor", "the sign of a - n counts", erring(difference=lambda d: d)),
    (
        "relative-error-with-a-floor",
        "it is relative to the sum of both",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a) + np.abs(n), floor)),
    ),
    (
        "relative-error-with-a-floor",
        "relative to a alone",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), floor)),
    ),
    (
        "relative-error-with-a-floor",
        "relative to n alone",
        erring(top=lambda a, n, floor: np.maximum(np.abs(n), floor)),
    ),
    (
        "relative-error-with-a-floor",
        "the signs of a and n count in the denominator",
        erring(top=lambda a, n, floor: np.maximum(np.maximum(a, n), floor)),
    ),
    (
        "relative-error-with-a-floor",
        "the floor is forgotten",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), np.abs(n))),
    ),
    (
        "relative-error-with-a-floor",
        "is not right yet",
        erring(top=lambda a, n, floor: np.maximum(np.abs(a), np.abs(n)) + floor),
    ),
    ("relative-error-with-a-floor", "if a has an entry nan", erring(finite=False)),
    ("relative-error-with-a-floor", "wrong shape", erring(worst=lambda e: e)),
    ("a-cotangent-that-shows-it", "All entries of a row are the same number", lambda x: np.ones(x.shape)),
    ("a-cotangent-that-shows-it", "All entries of a row are the same number", lambda x: np.zeros(x.shape)),
    ("a-cotangent-that-shows-it", "All entries of a row", lambda x: np.ones(x.shape) * np.arange(len(x))[:, None]),
    ("a-cotangent-that-shows-it", "All entries of a row are the same number", lambda x: np.ones(x.shape) + 1e-9 * x),
    (
        "a-cotangent-that-shows-it",
        "d_y has the wrong shape",
        lambda x: np.random.default_rng(0).normal(size=x.shape[-1]),
    ),
    ("a-cotangent-that-shows-it", "an array of finite numbers", lambda x: np.full(x.shape, np.nan)),
    ("a-cotangent-that-shows-it", "an array of finite numbers", lambda x: 1.0),
    ("along-one-direction", re.compile("claimed slope.*p is missing"), sloping(claimed=lambda d_x, p: d_x.sum())),
    (
        "along-one-direction",
        re.compile("claimed slope.*it is the mean"),
        sloping(claimed=lambda d_x, p: (d_x * p).mean()),
    ),
    ("along-one-direction", "not yet summed", sloping(claimed=lambda d_x, p: d_x * p)),
    (
        "along-one-direction",
        re.compile("measured slope.*d_y is missing"),
        sloping(measured=lambda f, x, d, p, h: (f(x + h * p) - f(x - h * p)).sum() / (2 * h)),
    ),
    (
        "along-one-direction",
        "divide by 2 * h",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h * p) - f(x - h * p))).sum() / h),
    ),
    (
        "along-one-direction",
        re.compile("measured slope.*p is missing"),
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h) - f(x - h))).sum() / (2 * h)),
    ),
    (
        "along-one-direction",
        "a one-sided difference",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h * p) - f(x))).sum() / h),
    ),
    ("along-one-direction", "the signs are lost", sloping(claimed=lambda d_x, p: np.abs(d_x * p).sum())),
    (
        "along-one-direction",
        "it is the mean over all entries; the loss",
        sloping(measured=lambda f, x, d, p, h: (d * (f(x + h * p) - f(x - h * p))).mean() / (2 * h)),
    ),
    ("along-one-direction", "it is the measured slope; that comes second", lambda *given: sloping()(*given)[::-1]),
    ("along-one-direction", re.compile("Two evaluations are enough|is not right yet"), entry_by_entry),
    (
        "along-one-direction",
        "Return claimed, measured, in this order: expected 2 results",
        lambda *given: sloping()(*given)[0],
    ),
    ("write-the-checker", "accepts a wrong gradient: tanh with 1 - x", lambda forward, backward, x: True),
    ("write-the-checker", "rejects a right gradient: tanh", lambda forward, backward, x: False),
    (
        "write-the-checker",
        "Is the tolerance too strict",
        checker(lambda a, n, size: np.array_equal(a, n)),
    ),
    (
        "write-the-checker",
        re.compile("softmax, claimed to be 0.*Use a random d_y"),
        checker(lambda a, n, size: (relative(a, n, size) < 1e-5).all(), cotangent=np.ones),
    ),
    (
        "write-the-checker",
        re.compile("rejects a right gradient: softmax.*only rounding errors.*Use a random d_y"),
        checker(lambda a, n, size: np.allclose(a, n, rtol=1e-5, atol=0), cotangent=np.ones),
    ),
    (
        "write-the-checker",
        re.compile("rejects a right gradient: softmax.*only rounding errors.*Use a random d_y"),
        checker(lambda a, n, size: (relative(a, n, size, floor=1e-300) < 1e-5).all(), cotangent=np.ones),
    ),
    (
        "write-the-checker",
        "Your d_y is 0",
        checker(lambda a, n, size: (relative(a, n, size) < 1e-5).all(), cotangent=np.zeros),
    ),
    ("write-the-checker", "x was changed in place", lambda forward, backward, x: bool(x.fill(0))),
    ("write-the-checker", "one entry off by 1 %", checker(lambda a, n, size: relative(a, n, size).mean() < 1e-2)),
    (
        "write-the-checker",
        "the absolute value of the difference",
        checker(lambda a, n, size: (a - n < 1e-5 * np.abs(n)).all()),
    ),
    (
        "write-the-checker",
        "All comparisons with NaN",
        checker(lambda a, n, size: not (relative(a, n, size) > 1e-5).any()),
    ),
    (
        "write-the-checker",
        "Compare the shapes first",
        checker(lambda a, n, size: (relative(a, n, size) < 1e-5).all(), shapes=False),
    ),
    ("write-the-checker", "These gradients are tiny", checker(lambda a, n, size: np.allclose(a, n))),
    ("write-the-checker", re.compile("10 x|tiny"), checker(lambda a, n, size: (np.abs(a - n) < 1e-5).all())),
    (
        "write-the-checker",
        "These gradients are tiny",
        checker(lambda a, n, size: (relative(a, n, size, floor=1e-6) < 1e-5).all()),
    ),
    (
        "write-the-checker",
        "The measurement is rounding noise",
        checker(lambda a, n, size: (relative(a, n, size, floor=1e-300) < 1e-5).all()),
    ),
    ("write-the-checker", "should return True or False", checker(lambda a, n, size: float(np.abs(a - n).max()))),
]


right = [
    ("central-difference", lambda f, x, h: f(x + h) / (2 * h) - f(x - h) / (2 * h)),
    ("measured-gradient", measuring(lambda d, h, up, at, down: ((d * up).sum() - (d * down).sum()) / (2 * h))),
    ("relative-error-with-a-floor", erring(worst=lambda e: float(max(e.ravel())))),
    ("a-cotangent-that-shows-it", lambda x: np.arange(x.size).reshape(x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.random.default_rng().normal(size=x.shape)),
    ("along-one-direction", lambda *given: np.array(sloping()(*given))),
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
    *(
        (
            "write-the-checker",
            checker(
                lambda a, n, size: bool((relative(a, n, size) < 1e-5).all()),
                cotangent=draw(np.random.default_rng(seed)),
            ),
        )
        for draw in (normal, away_from_zero)
        for seed in range(20)
    ),
]
