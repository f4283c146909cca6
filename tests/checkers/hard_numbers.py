"""Right gradients that are hard to see as right: extreme scales, cancellation, long sums, and few digits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np
from sample import ALL, Sample, add_right

HARD_NUMBERS: list[Sample] = []
add = partial(add_right, HARD_NUMBERS)


def draw(*shape: int, seed: int = 1) -> Any:
    """Draw standard normal numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def pointwise(name: str, note: str, f: Any, slope: Callable[[Any], Any], x: Any, **fields: Any) -> None:
    """Add a function of each entry by itself, with its derivative."""
    add(name, note, f, lambda x, d_y: (d_y * slope(x),), np.asarray(x, dtype=np.float64), **fields)


# ---------------------------------------------------------------------------------------------------------------------
# Scales

SMALL, LARGE = draw(5), draw(5, seed=2)

pointwise(
    "1e-7 sin x", "an absolute tolerance sees nothing", lambda x: 1e-7 * np.sin(x), lambda x: 1e-7 * np.cos(x), SMALL
)
pointwise(
    "1e9 sin x", "rounding is large in absolute numbers", lambda x: 1e9 * np.sin(x), lambda x: 1e9 * np.cos(x), SMALL
)
pointwise("x² at 1e-6", "a step of 1e-6 is as large as the input", lambda x: x * x, lambda x: 2 * x, 1e-6 * SMALL)
pointwise("x² at 1e6", "a step of 1e-6 moves the input by its rounding", lambda x: x * x, lambda x: 2 * x, 1e6 * LARGE)
pointwise("x³ at 1e-4", "the value is smaller than many steps", lambda x: x**3, lambda x: 3 * x**2, 1e-4 * SMALL)
pointwise(
    "log at 1e-5", "it bends within a small fraction of 1e-3", np.log, lambda x: 1 / x, 1e-5 * (1.5 + np.abs(SMALL))
)
pointwise(
    "square root at 1e-8",
    "the slope is 5000, and the domain ends nearby",
    np.sqrt,
    lambda x: 0.5 / np.sqrt(x),
    1e-8 * (1 + SMALL**2),
)
pointwise("1 / x at 1e-3", "the slope is 1e6", lambda x: 1 / x, lambda x: -1 / (x * x), [1e-3, -2e-3, 3e-3])
pointwise("1 / x at 1e5", "the slope is 1e-10", lambda x: 1 / x, lambda x: -1 / (x * x), [1e5, -2e5, 3e5])
pointwise("exp at 20", "values of 5e8", np.exp, np.exp, [19.0, 20.0, 20.5])
pointwise("exp at -30", "values of 1e-13", np.exp, np.exp, [-29.0, -30.0, -31.5])
pointwise(
    "a mix of scales",
    "one step cannot suit entries from 1e-5 to 1e5",
    lambda x: x * x,
    lambda x: 2 * x,
    [1e-5, 1e-2, 1.0, 1e2, 1e5],
)
pointwise(
    "1e-7 sin of 1e3 x",
    "a small value that turns within 1e-3",
    lambda x: 1e-7 * np.sin(1e3 * x),
    lambda x: 1e-4 * np.cos(1e3 * x),
    SMALL,
    rounding=1e3,
    step=1e-9,
)
pointwise(
    "sin of 1e4 x",
    "it turns within a step of 1e-4",
    lambda x: np.sin(1e4 * x),
    lambda x: 1e4 * np.cos(1e4 * x),
    SMALL,
    rounding=1e3,
    step=1e-10,
)
add(
    "weights of 1e3, inputs of 1e-3",
    "each input needs a step of its own",
    lambda x, w: x @ w,
    lambda x, w, d_y: (d_y @ w.T, x.T @ d_y),
    1e-3 * draw(2, 3),
    1e3 * draw(3, 2),
)
pointwise(
    "x log x near 0",
    "the second derivative is 1 / x",
    lambda x: x * np.log(x),
    lambda x: 1 + np.log(x),
    [1e-6, 3e-5, 1e-3],
)
pointwise(
    "tanh far out",
    "the slope of 1e-8 is what rounding leaves of 1 - y²",
    np.tanh,
    lambda x: 1 / np.cosh(x) ** 2,
    [9.0, -8.5, 9.5],
    dtypes=("float64",),
    tolerance=1e-6,
)
pointwise(
    "sigmoid far out",
    "the slope is the value itself",
    lambda x: np.exp(x) / (1 + np.exp(x)),
    lambda x: np.exp(x) / (1 + np.exp(x)) ** 2,
    [-20.0, -25.0, -15.0],
)
pointwise(
    "a saturated sigmoid",
    "the value is 1 to all digits of float32, its slope 1e-9",
    lambda x: 1 / (1 + np.exp(-x)),
    lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    [18.0, 20.0, 21.0],
    tolerance=1e-5,
)
pointwise(
    "inverse square root at 1e-4",
    "the slope is 5e5",
    lambda x: x**-0.5,
    lambda x: -0.5 * x**-1.5,
    1e-4 * (1 + SMALL**2),
)

# ---------------------------------------------------------------------------------------------------------------------
# Cancellation

pointwise(
    "1 + 1e-6 x²",
    "the part that varies stands behind six digits of a constant",
    lambda x: 1 + 1e-6 * x * x,
    lambda x: 2e-6 * x,
    SMALL,
    step=0.1,
)
pointwise("1000 + sin x", "three digits of the value are a constant", lambda x: 1000 + np.sin(x), np.cos, SMALL)
pointwise("(x + 1e3) - 1e3", "rounding moves the value in stairs", lambda x: (x + 1e3) - 1e3, np.ones_like, SMALL)
pointwise(
    "(1 - cos x) / x²",
    "near 0 two equal numbers are subtracted",
    lambda x: (1 - np.cos(x)) / (x * x),
    lambda x: 2 * (np.sin(x / 2) / x) * (np.cos(x / 2) / x - 2 * np.sin(x / 2) / (x * x)),
    [0.05, 0.1, -0.2],
    rounding=1e3,
)
pointwise(
    "log(1 + x) at 1e-5",
    "written without log1p, it keeps three digits in float32",
    lambda x: np.log(1 + x),
    lambda x: 1 / (1 + x),
    [1e-5, -2e-5, 3e-5],
)
pointwise(
    "sqrt(x + 1) - sqrt(x) at 1e4",
    "the difference of nearly equal roots",
    lambda x: np.sqrt(x + 1) - np.sqrt(x),
    lambda x: -0.5 / (np.sqrt(x + 1) * np.sqrt(x) * (np.sqrt(x + 1) + np.sqrt(x))),
    [1e4, 2e4, 3e4],
)
pointwise(
    "(x - 1)⁷ expanded",
    "the terms are 1e6 times as large as their sum",
    lambda x: x**7 - 7 * x**6 + 21 * x**5 - 35 * x**4 + 35 * x**3 - 21 * x**2 + 7 * x - 1,
    lambda x: 7 * (x - 1) ** 6,
    [1.15, 0.8, 1.3],
)
pointwise("exp(x) - 1 at 1e-4", "written without expm1", lambda x: np.exp(x) - 1, np.exp, [1e-4, -2e-4, 3e-4])
add(
    "the variance of numbers near 1000",
    "the squares are 1e6 times as large as the variance",
    lambda x: np.var(x, keepdims=True),
    lambda x, d_y: (2 * (x - x.mean()) / x.size * d_y,),
    1000 + draw(6),
    rounding=1e3,
)
add(
    "mean of squares minus square of mean",
    "the textbook formula loses its digits",
    lambda x: (x * x).mean(keepdims=True) - x.mean(keepdims=True) ** 2,
    lambda x, d_y: (2 * (x - x.mean()) / x.size * d_y,),
    10 + draw(6),
)
add(
    "a determinant near 0",
    "two products that nearly cancel",
    lambda x: x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0],
    lambda x, d_y: (d_y * np.array([[x[1, 1], -x[1, 0]], [-x[0, 1], x[0, 0]]]),),
    np.array([[1.0, 2.0], [3.0, 6.0001]]),
)
add(
    "a distance between close points",
    "the slope is 1 and the value 1e-4",
    lambda x, y: np.sqrt(((x - y) ** 2).sum(keepdims=True)),
    lambda x, y, d_y: ((x - y) / np.sqrt(((x - y) ** 2).sum()) * d_y, (y - x) / np.sqrt(((x - y) ** 2).sum()) * d_y),
    np.array([1.0, 2.0, 3.0]),
    np.array([1.0001, 2.0002, 2.9999]),
    step=1e-10,
)

# ---------------------------------------------------------------------------------------------------------------------
# Long sums and chains

add(
    "the mean of 100 numbers",
    "each slope is 1e-2, near the rounding of the sum in float32",
    lambda x: x.mean(keepdims=True),
    lambda x, d_y: (np.full_like(x, 1 / x.size) * d_y,),
    draw(100),
    step=1e-2,
)
add(
    "a sum of squares of 150 numbers",
    "what one entry changes is 1e-2 of the value",
    lambda x: (x * x).sum(keepdims=True),
    lambda x, d_y: (2 * x * d_y,),
    draw(150),
)
add(
    "a cumulative sum",
    "the last value has the rounding of all before",
    lambda x: np.cumsum(x),
    lambda x, d_y: (np.cumsum(d_y[::-1])[::-1],),
    draw(60),
    step=1e-2,
    dtypes=ALL,
)
add(
    "an alternating sum",
    "large terms cancel",
    lambda x: (x * x * (-1.0) ** np.arange(x.size).astype(x.dtype)).sum(keepdims=True),
    lambda x, d_y: (2 * x * (-1.0) ** np.arange(x.size).astype(x.dtype) * d_y,),
    100 + draw(50),
    dtypes=ALL,
)
add(
    "a product of 30 numbers",
    "the value spans scales, and the gradient divides by small inputs",
    lambda x: np.prod(x, keepdims=True),
    lambda x, d_y: (np.array([np.prod(np.delete(x, i)) for i in range(x.size)], dtype=x.dtype) * d_y,),
    1 + 0.3 * draw(30),
    dtypes=ALL,
)


def iterate(x: Any, n: int = 12) -> Any:
    """Return x after n steps of the logistic map."""
    for _ in range(n):
        x = 3.7 * x * (1 - x)
    return x


def iterate_backward(x: Any, d_y: Any, n: int = 12) -> Any:
    """Multiply the slopes of the steps."""
    slope = np.ones_like(x)
    for _ in range(n):
        slope = slope * (3.7 * (1 - 2 * x))
        x = 3.7 * x * (1 - x)
    return (d_y * slope,)


add(
    "twelve steps of the logistic map",
    "chaos: the slope grows with each step",
    iterate,
    iterate_backward,
    np.array([0.2, 0.41, 0.63]),
    step=1e-9,
    rounding=1e3,
)
add(
    "tanh forty times",
    "the gradient shrinks with each step",
    lambda x: repeat_tanh(x)[0],
    lambda x, d_y: (d_y * repeat_tanh(x)[1],),
    np.array([0.5, -1.0, 2.0]),
    dtypes=ALL,
)


def repeat_tanh(x: Any) -> Any:
    """Return tanh applied forty times, and its slope."""
    slope = np.ones_like(x)
    for _ in range(40):
        x = np.tanh(x)
        slope = slope * (1 - x * x)
    return x, slope


# ---------------------------------------------------------------------------------------------------------------------
# Few digits

pointwise("x² in float16", "three digits", lambda x: x * x, lambda x: 2 * x, [0.5, -1.25, 3.0], dtypes=ALL)
pointwise(
    "tanh in float16",
    "three digits, and a slope below 1",
    np.tanh,
    lambda x: 1 - np.tanh(x) ** 2,
    [0.3, -0.8, 1.2],
    dtypes=ALL,
)
pointwise("exp in float16", "values up to 400 of at most 65504", np.exp, np.exp, [4.0, 5.5, 6.0], dtypes=ALL)
pointwise(
    "1 / x in float16",
    "bends sharply for so few digits",
    lambda x: 1 / x,
    lambda x: -1 / (x * x),
    [0.3, -0.5, 2.0],
    dtypes=ALL,
)
pointwise(
    "x / 1000 in float16",
    "subnormal numbers are near",
    lambda x: x / 1000,
    lambda x: np.full_like(x, 1e-3),
    [0.5, -1.0, 2.0],
    dtypes=ALL,
)
pointwise(
    "100 + sin x in float16",
    "the value moves in steps of 1/16",
    lambda x: 100 + np.sin(x),
    np.cos,
    [0.5, -1.0, 2.0],
    dtypes=ALL,
)
pointwise("log in float16", "the domain ends nearby", np.log, lambda x: 1 / x, [0.02, 0.5, 30.0], dtypes=ALL)
add(
    "a product of matrices in float16",
    "rounding of each term of the sums",
    lambda x, w: x @ w,
    lambda x, w, d_y: (d_y @ w.T, x.T @ d_y),
    draw(2, 4),
    draw(4, 3),
    dtypes=ALL,
)
pointwise(
    "GELU",
    "the slope changes its sign near -0.75",
    lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
    lambda x: gelu_slope(x),
    [-0.7525, -0.75, -3.0, 2.0],
    dtypes=ALL,
)


def gelu_slope(x: Any) -> Any:
    """Return the derivative of GELU in its tanh form."""
    c = sqrt(2 / pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
