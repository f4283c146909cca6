"""Right gradients that are hard to see as right: stable softmax, masks, norms at 0, and joined formulas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hard_numbers import draw
from sample import ALL, Sample, add_right

HARD_LAYERS: list[Sample] = []
add = partial(add_right, HARD_LAYERS)


# ---------------------------------------------------------------------------------------------------------------------
# Softmax and its relatives


def softmax(x: Any) -> Any:
    """Return the exponentials of the last axis, divided by their sum."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(x: Any, d_y: Any) -> Any:
    """Return y (d_y - Σ y d_y)."""
    y = softmax(x)
    return (y * (d_y - (y * d_y).sum(axis=-1, keepdims=True)),)


def log_sum_exp(x: Any) -> Any:
    """Return log Σ exp x along the last axis."""
    largest = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=-1)) + largest[..., 0]


def log_softmax(x: Any) -> Any:
    """Return x - log Σ exp x."""
    return x - log_sum_exp(x)[..., None]


def hidden_softmax(x: Any, mask: Any) -> Any:
    """Return the softmax of what a mask shows; 0 for a row without anything."""
    with np.errstate(invalid="ignore"):
        e = np.where(mask, np.exp(x - np.where(mask, x, -np.inf).max(axis=-1, keepdims=True)), 0)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(x.dtype).tiny)


def hidden_softmax_backward(x: Any, mask: Any, d_y: Any) -> Any:
    """Return y (d_y - Σ y d_y), 0 where hidden."""
    y = hidden_softmax(x, mask)
    return y * (d_y - (y * d_y).sum(axis=-1, keepdims=True)), None


HIDES = np.array([[True, False, True, True], [False] * 4, [True] * 4])

add(
    "softmax at ±1e4",
    "all slopes are 0 except between the two largest",
    softmax,
    softmax_backward,
    np.array([[1e4, -1e4, 1e4 - 1, 0.0], [-1e4, -1e4 + 0.5, -1e4 + 1, 0.0]]),
    step=1e-9,
)
add(
    "softmax of equal scores at 1e4",
    "a large shift that cancels",
    softmax,
    softmax_backward,
    np.full((2, 3), 1e4),
    step=1e-9,
)
add(
    "a saturated softmax",
    "slopes of 1e-9",
    softmax,
    softmax_backward,
    np.array([[20.0, 0.0, -1.0], [0.0, 21.0, 3.0]]),
    dtypes=("float64",),
    tolerance=1e-4,
)
add(
    "log of a sum of exponentials at -1e4",
    "the value is large, its slopes sum to 1",
    log_sum_exp,
    lambda x, d_y: (softmax(x) * d_y[..., None],),
    np.array([[-1e4, -1e4 + 1, -1e4 + 2.5]]),
    step=1e-9,
)
add(
    "log-softmax at 1e4",
    "values near 1e4 with slopes near 1",
    log_softmax,
    lambda x, d_y: (d_y - softmax(x) * d_y.sum(axis=-1, keepdims=True),),
    np.array([[1e4, 0.0, 3.0], [1.0, 2.0, 3.0]]),
    step=1e-9,
    tolerance=1e-6,
)
add(
    "softmax under a mask",
    "hidden scores have slope 0, a row is wholly hidden",
    hidden_softmax,
    hidden_softmax_backward,
    draw(3, 4),
    HIDES,
    dtypes=ALL,
)
add(
    "softplus at ±50",
    "written so that nothing overflows",
    lambda x: np.logaddexp(x, 0),
    lambda x, d_y: (d_y * np.exp(-np.logaddexp(-x, 0)),),
    np.array([50.0, -50.0, 0.0, 1.0]),
    dtypes=ALL,
)
add(
    "binary cross-entropy with logits of 40",
    "one side has slope 4e-18",
    lambda x: np.maximum(x, 0) - 0.3 * x + np.log1p(np.exp(-np.abs(x))),
    lambda x, d_y: (d_y * (np.exp(-np.logaddexp(-x, 0)) - 0.3).astype(x.dtype),),
    np.array([40.0, -40.0, 0.5]),
    dtypes=ALL,
)

# ---------------------------------------------------------------------------------------------------------------------
# Norms, angles, and functions that are joined with care


def length(x: Any) -> Any:
    """Return the length of each row."""
    return np.sqrt((x * x).sum(axis=-1))


def length_backward(x: Any, d_y: Any) -> Any:
    """Return the direction of each row; 0 for a row of zeros."""
    norm = length(x)[..., None]
    return (x / np.where(norm == 0, 1, norm) * d_y[..., None],)


def normalize_backward(x: Any, d_y: Any) -> Any:
    """Differentiate x / (|x| + 1e-6), with the gradient of the first factor alone at 0."""
    norm = length(x)[..., None]
    safe = np.where(norm == 0, 1, norm)
    along = (x * d_y).sum(axis=-1, keepdims=True)
    return (d_y / (norm + 1e-6) - x * along / (safe * (norm + 1e-6) ** 2),)


def sinc(x: Any) -> Any:
    """Return sin x / x, by a series near 0."""
    safe = np.where(np.abs(x) < 1e-2, 1, x)
    return np.where(np.abs(x) < 1e-2, 1 - x**2 / 6 + x**4 / 120, np.sin(safe) / safe)


def sinc_backward(x: Any, d_y: Any) -> Any:
    """Return (cos x - sin x / x) / x, by a series near 0."""
    safe = np.where(np.abs(x) < 1e-2, 1, x)
    near = -x / 3 + x**3 / 30
    return (d_y * np.where(np.abs(x) < 1e-2, near, (np.cos(safe) - np.sin(safe) / safe) / safe),)


add("norm at 0", "a kink in all directions; 0 is a subgradient", length, length_backward, np.zeros((1, 3)), kink=True)
add("norm near 0", "the length is 1e-5", length, length_backward, 1e-5 * draw(2, 3))
add(
    "norm with a row of zeros",
    "one row is at the kink, the other is not",
    length,
    length_backward,
    np.stack([np.zeros(3), draw(3)]),
    kink=True,
    dtypes=ALL,
)
add(
    "normalized rows of length 1e-3",
    "slopes of 1e3",
    lambda x: x / (length(x)[..., None] + 1e-6),
    normalize_backward,
    1e-3 * draw(2, 3),
)
add(
    "the smooth length near 0",
    "it bends within 1e-4",
    lambda x: np.sqrt(x * x + 1e-8),
    lambda x, d_y: (d_y * x / np.sqrt(x * x + 1e-8),),
    np.array([0.0, 1e-4, -3e-4, 1.0]),
    step=1e-8,
)
add("sin x / x at 0", "two formulas that meet at 0.01", sinc, sinc_backward, np.array([0.0, 1e-3, 0.5, -2.0]))
add(
    "the square root of a square",
    "computed as a root, it is |x|",
    lambda x: np.sqrt(x * x),
    lambda x, d_y: (d_y * np.sign(x),),
    np.array([0.5, -1e-3, 3.0]),
    dtypes=ALL,
)
add(
    "arctan2 on all sides",
    "the angle jumps by 2 pi nearby",
    lambda y, x: np.arctan2(y, x),
    lambda y, x, d: (d * x / (x * x + y * y), -d * y / (x * x + y * y)),
    np.array([1e-3, -1e-3, 2.0]),
    np.array([-1.0, -1.0, 0.5]),
    step=1e-8,
    dtypes=ALL,
)
add(
    "arcsin near 1",
    "the slope is 70, and the domain ends 1e-4 away",
    lambda x: np.arcsin(x),
    lambda x, d_y: (d_y / np.sqrt((1 - x) * (1 + x)),),
    np.array([1 - 1e-4, -1 + 1e-4, 0.2]),
    step=1e-9,
)
add(
    "layer norm of nearly equal numbers",
    "a division by a deviation of 1e-3",
    lambda x: (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5),
    lambda x, d_y: layer_norm_backward(x, d_y),
    1 + 1e-3 * draw(2, 4),
    step=1e-8,
    dtypes=ALL,
)
add(
    "a power at 0",
    "0 to the power of 2: the slope is 0, its logarithm infinite",
    lambda x: x**2.0,
    lambda x, d_y: (d_y * 2 * x,),
    np.array([0.0, 0.5, 2.0]),
    dtypes=ALL,
)
add(
    "x to a whole power of a negative number",
    "exp(p log x) does not exist there",
    lambda x: x**3,
    lambda x, d_y: (d_y * 3 * x * x,),
    np.array([-0.5, -2.0, 1.0]),
    dtypes=ALL,
)
add(
    "a mask that drops an infinite value",
    "log 0 in a branch that is not taken",
    lambda x: np.log(np.where(x > 0, x, 1)),
    lambda x, d_y: (np.where(x > 0, d_y / np.where(x > 0, x, 1), 0),),
    np.array([0.5, -1.0, 2.0]),
    dtypes=ALL,
)
add(
    "repeated rows of a table",
    "slopes of one row are summed",
    lambda table, ids: table[ids],
    lambda table, ids, d_y: (np.stack([d_y[ids == i].sum(axis=0) for i in range(len(table))]), None),
    draw(4, 2),
    np.array([1, 3, 1, 1, 0]),
    dtypes=ALL,
)
add(
    "a constant function",
    "all slopes are 0, and a relative error divides by 0",
    lambda x: np.zeros_like(x) + 3,
    lambda x, d_y: (np.zeros_like(x),),
    draw(4),
)
add(
    "an input that is not used",
    "its gradient is 0",
    lambda x, y: np.sin(x),
    lambda x, y, d_y: (d_y * np.cos(x), np.zeros_like(y)),
    draw(3),
    draw(2),
    dtypes=ALL,
)
add(
    "an empty input",
    "there is nothing to compare",
    lambda x, y: np.sin(x).sum() + y,
    lambda x, y, d_y: (np.cos(x) * d_y.sum(), d_y.copy()),
    np.zeros((0, 3)),
    draw(2),
)


def layer_norm_backward(x: Any, d_y: Any) -> Any:
    """Return (d - mean(d) - x̂ mean(d x̂)) / σ."""
    scale = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) * scale
    mean = d_y.mean(axis=-1, keepdims=True)
    return (scale * (d_y - mean - x_hat * (d_y * x_hat).mean(axis=-1, keepdims=True)),)
