"""Finite differences, and gradient tests that detect mistakes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, sin
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.comparing import check_result
from minitransformer.apps.learn.solutions import mistaken, mistaken_parts
from minitransformer.apps.learn.verdict import Wrong, agree, refuse_unsolved, take

Function = Callable[[np.ndarray], np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    return np.asarray(ops.softmax.forward(x)[0])


def _softmax_backward(x: np.ndarray, d_y: np.ndarray) -> np.ndarray:
    return np.asarray(ops.softmax.backward(ops.softmax.forward(x)[1], d_y)[0])


def _refuse(title: str, text: str) -> None:
    raise Wrong(f"{title}\n\n{text}")


def central_difference(central: Callable[..., Any]) -> None:
    """Check the quotient itself, with steps so large that the methods differ."""
    cubed: tuple[str, Callable[[float], float]] = ("x ** 3", lambda x: x**3)
    for (label, f), x, h in ((("sin", sin), 1.0, 0.1), (cubed, 2.0, 0.5), (("exp", exp), -0.5, 0.25)):
        quotient = (f(x + h) - f(x - h)) / (2 * h)
        check_result("central-difference", f"central({label}, {x:g}, {h:g})", central, (f, x, h), quotient)


def measured_gradient(measured: Callable[..., Any]) -> None:
    """Check measurements against exact gradients: of entries, of rows, of a product, and of a view."""
    rng = np.random.default_rng(14)
    x, y, z, w = (rng.normal(size=shape) for shape in ((2, 3), (4,), (5, 2), (2, 4)))
    cases: list[tuple[str, np.ndarray, Function, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = [
        ("tanh", y, np.tanh, lambda x, d_y: d_y * (1 - np.tanh(x) ** 2)),
        ("softmax", x, _softmax, _softmax_backward),
        ("x @ w", z, lambda x: x @ w, lambda x, d_y: d_y @ w.T),
        ("transpose", x, np.transpose, lambda x, d_y: d_y.T),
    ]
    for h in (0.25, 1e-5):  # with a large step the methods differ, with a small one it must be the gradient
        for label, x, f, exact in cases:
            d_y = rng.normal(size=f(x).shape)
            expected = exact(x, d_y) if h < 0.1 else _differences(f, x, d_y, h, -h)
            found = measured(f, x, d_y) if h < 0.1 else measured(f, x, d_y, h)
            agree(
                f"the measured gradient of {label} with h = {h:g}",
                found,
                expected,
                mistakes=mistaken("measured-gradient", f, x, d_y, h),
                tolerance=1e-7,
            )


def _differences(f: Function, x: np.ndarray, d_y: np.ndarray, up: float, down: float) -> np.ndarray:
    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1.0
        d_x[index] = (d_y * (f(x + up * step) - f(x + down * step))).sum() / (up - down)
    return d_x


def relative_error_with_a_floor(error: Callable[..., Any]) -> None:
    """Check the error for gradients of all sizes and signs, for zeros, and for what is not finite."""
    rng = np.random.default_rng(15)
    n = rng.normal(size=(3, 4))
    cases = {
        "numbers of size 1": (n + 1e-3 * rng.normal(size=(3, 4)), n, 1e-9),
        "one entry that is too small": (n - np.eye(3, 4), n, 1e-9),
        "tiny numbers": (3e-7 * n, 1e-7 * n, 1e-12),
        "a claim of 0 and noise below the floor": (np.zeros((3, 4)), 1e-12 * n, 1e-6),
        "zeros on both sides": (np.zeros(3), np.zeros(3), 1e-6),
        "opposite signs": (np.array([2.0, 0.5]), np.array([-2.0, 0.5]), 1e-9),
    }
    for label, (a, n, floor) in cases.items():
        top = np.maximum(np.maximum(np.abs(a), np.abs(n)), floor)
        found = error(a, n, floor)
        known = mistaken("relative-error-with-a-floor", a, n, floor)
        agree(f"the error for {label}", found, (np.abs(a - n) / top).max(), mistakes=known, tolerance=1e-6)
    for bad in (np.nan, np.inf, -np.inf):
        good, spoilt = np.array([1.0, 2.0]), np.array([1.0, bad])
        for side, a, n in (("a", spoilt, good), ("n", good, spoilt)):
            known = mistaken("relative-error-with-a-floor", a, n, 1e-9)
            agree(f"the error if {side} has an entry {bad}", error(a, n, 1e-9), np.inf, mistakes=known)


def a_cotangent_that_shows_it(cotangent: Callable[..., Any]) -> None:
    """Check that with this cotangent the wrong gradient of softmax differs from the right one."""
    rng = np.random.default_rng(16)
    for shape in ((2, 3), (4, 6), (1, 5)):
        x = rng.normal(size=shape)
        d_y = cotangent(x)
        refuse_unsolved(d_y)
        if not isinstance(d_y, np.ndarray) or d_y.dtype.kind not in "fiu" or not np.isfinite(d_y).all():
            _refuse("d_y is not right yet.", "It should be an array of finite numbers.")
        if d_y.shape != shape:
            _refuse("d_y has the wrong shape.", f"x has the shape {shape}, and d_y has {d_y.shape}.")
        y = _softmax(x)
        right = y * (d_y - (d_y * y).sum(axis=-1, keepdims=True))
        wrong = y * (d_y - d_y.mean(axis=-1, keepdims=True))
        spread = np.ptp(d_y, axis=-1)
        is_constant = spread <= 1e-3 * np.abs(d_y).max(axis=-1)
        if not is_constant.any() and (np.abs(right - wrong).max(axis=-1) > 1e-3 * spread).all():
            continue
        shown = np.array2string(d_y, precision=3, threshold=12)
        if is_constant.any():
            why = (
                "All entries of a row are the same number c there. Then the loss is c times the sum of a row of y, and "
                "that sum is 1, whatever x is. The true gradient is 0, and so is the wrong one."
            )
        else:
            why = "With it the two gradients agree to a thousandth."
        raise Wrong(f"With this d_y the mistake does not show:\n\n{textwrap.indent(shown, '    ')}\n\n{why}")


def along_one_direction(slopes: Callable[..., Any]) -> None:
    """Check both slopes, for a right gradient and for a claim that is off, and that f runs twice only."""
    rng = np.random.default_rng(17)
    x, d_y, p = (rng.normal(size=(3, 4)) for _ in range(3))
    spoilt = _softmax_backward(x, d_y)
    spoilt[1, 2] += 0.1
    w = rng.normal(size=(5, 3))
    _one_direction(slopes, "softmax", _softmax, x, d_y, _softmax_backward(x, d_y), p)
    _one_direction(slopes, "softmax, one entry of d_x off,", _softmax, x, d_y, spoilt, p)
    x, d_y, p = (rng.normal(size=shape) for shape in ((2, 5), (2, 3), (2, 5)))
    _one_direction(slopes, "x @ w", lambda x: x @ w, x, d_y, d_y @ w.T, p)


def _one_direction(
    slopes: Callable[..., Any], label: str, f: Function, x: np.ndarray, d_y: np.ndarray, d_x: np.ndarray, p: np.ndarray
) -> None:
    calls = 0

    def count_calls(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return f(x)

    h = 0.25  # so large that the measured slope is not the claimed one
    known = mistaken_parts("along-one-direction", ["claimed", "measured"], f, x, d_y, d_x, p, h)
    claimed, measured = take(("claimed", "measured"), slopes(count_calls, x, d_y, d_x, p, h), ((), ()))
    agree(f"the claimed slope for {label}", claimed, (d_x * p).sum(), mistakes=known["claimed"])
    up, down = f(x + h * p), f(x - h * p)
    agree(
        f"the measured slope for {label}",
        measured,
        (d_y * (up - down)).sum() / (2 * h),
        mistakes=known["measured"],
        tolerance=1e-8,
    )
    if calls > 2:
        _refuse("Right, but too slow.", f"f was called {calls} times. Two evaluations are enough, however large x is.")


ONES = (
    "With d_y of ones the true gradient of a softmax is 0, because a row always sums to 1: only rounding errors are "
    "compared. Use a random d_y."
)
FLAT = (
    "The true gradient is 0 here. The measurement is rounding noise, and relative to noise every difference is "
    "large. Add a floor that depends on the size of y, with tolerance * floor above such noise."
)


@dataclass(frozen=True)
class _Case:
    """A pair that a checker is tested with."""

    title: str
    forward: Function
    backward: Callable[[np.ndarray, np.ndarray], np.ndarray]
    x: np.ndarray
    right: bool
    advice: str


def _cases() -> Iterator[_Case]:
    """Yield what a checker must accept and refuse, the plain ones first."""
    rng = np.random.default_rng(18)
    x, w, square = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=(4, 4))

    def tanh_backward(x: np.ndarray, d_y: np.ndarray) -> np.ndarray:
        return np.asarray(d_y * (1 - np.tanh(x) ** 2))

    def spoil(change: Callable[[float], float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def backward(x: np.ndarray, d_y: np.ndarray) -> np.ndarray:
            d_x = tanh_backward(x, d_y)
            place = np.unravel_index(np.abs(d_x).argmax(), d_x.shape)
            d_x[place] = change(float(d_x[place]))
            return d_x

        return backward

    near = "Is the tolerance too strict? The measurement has only about seven correct digits."
    far = "Compare every entry with the measurement; a tolerance of 1e-5 or so, relative to the gradient, is enough."
    yield _Case("tanh", np.tanh, tanh_backward, x, True, near)
    yield _Case("tanh with 1 - x * x for 1 - y * y", np.tanh, lambda x, d: d * (1 - x * x), x, False, far)
    yield _Case("tanh with the wrong sign", np.tanh, lambda x, d: -tanh_backward(x, d), x, False, far)
    yield _Case("a product of (3, 4) and (4, 2)", lambda x: x @ w, lambda x, d: d @ w.T, x, True, near)
    yield _Case("a product, its matrix not transposed", lambda x: x @ square, lambda x, d: d @ square, x, False, far)
    yield _Case("softmax", _softmax, _softmax_backward, x, True, near)
    yield _Case("softmax, claimed to be 0", _softmax, lambda x, d: np.zeros_like(x), x, False, ONES)

    def mean_for_sum(x: np.ndarray, d_y: np.ndarray) -> np.ndarray:
        return np.asarray(_softmax(x) * (d_y - d_y.mean(axis=-1, keepdims=True)))

    yield _Case("softmax, the mean of d_y for its weighted sum", _softmax, mean_for_sum, x, False, ONES)
    loose = "The tolerance is too large: a gradient of one entry that is off by 1 % passes. 1e-5 or so is enough."
    yield _Case("tanh of one number, off by 1 %", np.tanh, spoil(lambda d: 1.01 * d), x[:1, :1], False, loose)
    one = "One entry is wrong, all others are right. Compare every entry, not their mean."
    yield _Case("tanh, one entry off by 1 %", np.tanh, spoil(lambda d: d + 0.01 * abs(d)), x, False, one)
    sign = "One entry is far too small, all others are right. Take the absolute value of the difference."
    yield _Case("tanh, one entry much too small", np.tanh, spoil(lambda d: d - 100), x, False, sign)
    nan = (
        "All comparisons with NaN are False. Ask whether every entry is near enough (`<=`, then `all`), not whether "
        "some entry is too far away."
    )
    yield _Case("tanh, one entry NaN", np.tanh, spoil(lambda d: float("nan")), x, False, nan)
    yield _Case("tanh, all entries NaN", np.tanh, lambda x, d: np.full_like(x, np.nan), x, False, nan)
    wide = rng.normal(size=(2, 5))
    yield _Case("a sum", lambda x: x.sum(axis=0), lambda x, d: np.zeros_like(x) + d, wide, True, near)
    shape = (
        "The numbers fit, but the shape does not: NumPy repeats the row when it subtracts. Compare the shapes first."
    )
    yield _Case("a sum, d_x of shape (1, 5)", lambda x: x.sum(axis=0), lambda x, d: d[None, :], wide, False, shape)
    yield _Case("10 x * x, x about 100", lambda x: 10 * x * x, lambda x, d: 20 * x * d, 100 + x, True, near)
    tiny = (
        "These gradients are tiny, because y is. An absolute tolerance accepts anything below it, and so does a fixed "
        "floor. (np.allclose has such a tolerance, 1e-8.)"
    )
    yield _Case("1e-7 sin x", lambda x: 1e-7 * np.sin(x), lambda x, d: 1e-7 * np.cos(x) * d, x, True, tiny)
    yield _Case("1e-7 sin x, claimed to be 0", lambda x: 1e-7 * np.sin(x), lambda x, d: 0 * d, x, False, tiny)
    yield _Case("exp(x - 200)", lambda x: np.exp(x - 200), lambda x, d: np.exp(x - 200) * d, x, True, tiny)
    thousand = "exp(x - 200), 1000 times too large"
    yield _Case(thousand, lambda x: np.exp(x - 200), lambda x, d: 1000 * np.exp(x - 200) * d, x, False, tiny)
    scale = np.array([1.0, 1.0, 1e-7, 1e-7])
    small = (
        "Only the small entries are wrong, and beside the large ones of the same array their error is nothing: so it "
        "is in a norm, too. Compare each entry with its own size."
    )
    yield _Case(
        "tanh times 1 and 1e-7", lambda x: scale * np.tanh(x), lambda x, d: scale * tanh_backward(x, d), x, True, near
    )
    twice = scale * np.array([1, 1, 2, 2])
    yield _Case(
        "tanh times 1 and 1e-7, the small entries twice too large",
        lambda x: scale * np.tanh(x),
        lambda x, d: twice * tanh_backward(x, d),
        x,
        False,
        small,
    )
    yield _Case(
        "the sum of a softmax", lambda x: _softmax(x).sum(axis=-1), lambda x, d: np.zeros_like(x), x, True, FLAT
    )
    flat_large = "a thousand times the sum of a softmax"
    rows: Function = lambda x: 1000 * _softmax(x).sum(axis=-1)  # noqa: E731
    yield _Case(flat_large, rows, lambda x, d: np.zeros_like(x), x, True, FLAT)


def write_the_checker(check: Callable[..., Any]) -> None:
    """Check a checker with right and wrong gradients."""
    for case in _cases():
        cotangents: list[np.ndarray] = []

        def backward(x: np.ndarray, d_y: Any, case: _Case = case, given: list[np.ndarray] = cotangents) -> np.ndarray:
            given.append(np.array(d_y, dtype=float))
            return case.backward(x, d_y)

        with np.errstate(all="ignore"):
            found = check(case.forward, backward, case.x)
        refuse_unsolved(found)
        if not isinstance(found, bool | np.bool_):
            _refuse("That is not right yet.", f"check should return True or False, found {type(found).__name__}.")
        if found != case.right:
            verdict = "rejects a right" if case.right else "accepts a wrong"
            advice = _blame(case, cotangents[-1]) if cotangents else ""
            _refuse(f"check {verdict} gradient: {case.title}.", advice or case.advice)


def _blame(case: _Case, d_y: np.ndarray) -> str:
    """Return why the cotangent is to blame, or nothing."""
    if not d_y.any():
        return "Your d_y is 0, and so is every gradient with it, right or wrong. Use a random d_y."
    constant = d_y.ndim > 0 and np.ptp(d_y) == 0
    return ONES if constant and "softmax" in case.title and case.advice != FLAT else ""
