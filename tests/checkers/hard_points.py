"""Right gradients that are hard to see as right: near kinks, at kinks, with ties, and with discontinuous choices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hard_numbers import draw
from sample import ALL, Sample, add_right

HARD_POINTS: list[Sample] = []
add = partial(add_right, HARD_POINTS)


# ---------------------------------------------------------------------------------------------------------------------
# Near kinks and at kinks

add(
    "ReLU 1e-5 from its kink",
    "a step of 1e-4 crosses it",
    lambda x: np.maximum(x, 0),
    lambda x, d_y: (d_y * (x > 0),),
    np.array([1e-5, -1e-5, 2.0, -3.0]),
    step=1e-7,
)
add(
    "ReLU 1e-8 from its kink",
    "a step of 1e-6 crosses it",
    lambda x: np.maximum(x, 0),
    lambda x, d_y: (d_y * (x > 0),),
    np.array([1e-8, -1e-8, 2.0, -3.0]),
    step=1e-10,
)
add(
    "ReLU at 0, slope 0",
    "a slope from 0 to 1 is a subgradient",
    lambda x: np.maximum(x, 0),
    lambda x, d_y: (d_y * (x > 0),),
    np.array([0.0, 1.0, -1.0]),
    kink=True,
    dtypes=ALL,
)
add(
    "ReLU at 0, slope 1/2",
    "the central difference, and only that, is 1/2",
    lambda x: np.maximum(x, 0),
    lambda x, d_y: (d_y * ((x > 0) + 0.5 * (x == 0)).astype(x.dtype),),
    np.array([0.0, 1.0, -1.0]),
    kink=True,
    dtypes=ALL,
)
add(
    "absolute value at 0, slope 0",
    "the sides have slopes -1 and 1",
    lambda x: np.abs(x),
    lambda x, d_y: (d_y * np.sign(x),),
    np.array([0.0, 1.0, -1.0]),
    kink=True,
    dtypes=ALL,
)
add(
    "absolute value near 0",
    "the kink is 1e-6 away",
    lambda x: np.abs(x),
    lambda x, d_y: (d_y * np.sign(x),),
    np.array([1e-6, -1e-6, 1.0, -1.0]),
    step=1e-8,
)
add(
    "a leaky ReLU at its kink",
    "slopes 0.01 and 1",
    lambda x: np.where(x > 0, x, 0.01 * x),
    lambda x, d_y: (d_y * np.where(x > 0, 1, 0.01).astype(x.dtype),),
    np.array([0.0, 1.0, -1.0]),
    kink=True,
    dtypes=ALL,
)
add(
    "ELU at 0",
    "the second derivative jumps there; the first does not",
    lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    lambda x, d_y: (d_y * np.exp(np.minimum(x, 0)),),
    np.array([0.0, 1.0, -1.0]),
    dtypes=ALL,
)
add(
    "Huber at its joint",
    "quadratic on one side, linear on the other",
    lambda x: np.where(np.abs(x) < 1, 0.5 * x * x, np.abs(x) - 0.5),
    lambda x, d_y: (d_y * np.clip(x, -1, 1),),
    np.array([1.0, -1.0, 0.3, 4.0]),
    dtypes=ALL,
)
add(
    "clip inside its bounds",
    "a bound is 1e-5 away",
    lambda x: np.clip(x, -1, 1),
    lambda x, d_y: (d_y * (np.abs(x) < 1),),
    np.array([1 - 1e-5, -1 + 1e-5, 0.5, 3.0]),
    step=1e-7,
)
add(
    "hard sigmoid at a joint",
    "a kink at -3 and 3",
    lambda x: np.clip(x / 6 + 0.5, 0, 1),
    lambda x, d_y: (d_y * (np.abs(x) < 3).astype(x.dtype) / 6,),
    np.array([3.0, -3.0, 1.0]),
    kink=True,
    dtypes=ALL,
)
add(
    "floor away from a jump",
    "the slope is 0 although the function rises",
    lambda x: np.floor(x) + 0 * x,
    lambda x, d_y: (np.zeros_like(x),),
    np.array([0.3, 1.7, -2.4]),
    dtypes=ALL,
)
add(
    "x minus its floor",
    "the slope is 1 although the function does not rise",
    lambda x: x - np.floor(x),
    lambda x, d_y: (d_y.copy(),),
    np.array([0.3, 1.001, -2.4]),
    dtypes=ALL,
)
add(
    "a cubic spline at a knot",
    "the third derivative jumps",
    lambda x: np.where(x > 1, (x - 1) ** 3, 0) + x * x,
    lambda x, d_y: (d_y * (2 * x + np.where(x > 1, 3 * (x - 1) ** 2, 0)),),
    np.array([1.0, 0.5, 1.5]),
    dtypes=ALL,
)
add(
    "|x|³ at 0",
    "smooth twice; the order of convergence is lower than usual",
    lambda x: np.abs(x) ** 3,
    lambda x, d_y: (d_y * 3 * x * np.abs(x),),
    np.array([0.0, 0.1, -0.5]),
    dtypes=ALL,
)
add(
    "x |x| at 0",
    "the slope is 0 there, and its change jumps",
    lambda x: x * np.abs(x),
    lambda x, d_y: (d_y * 2 * np.abs(x),),
    np.array([0.0, 0.1, -0.5]),
    dtypes=ALL,
)

# ---------------------------------------------------------------------------------------------------------------------
# Largest entries, ties, sorting


def take_largest(x: Any, d_y: Any) -> Any:
    """Give the gradient to the first of the largest entries of each row."""
    d_x = np.zeros_like(x)
    np.put_along_axis(d_x, x.argmax(axis=-1)[..., None], d_y[..., None], axis=-1)
    return (d_x,)


def share_largest(x: Any, d_y: Any) -> Any:
    """Share the gradient between the largest entries of each row."""
    is_largest = x == x.max(axis=-1, keepdims=True)
    return (is_largest / is_largest.sum(axis=-1, keepdims=True).astype(x.dtype) * d_y[..., None],)


TIES = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, -1.0, 0.5, 2.0]])

add(
    "max of a near tie",
    "the second largest is 1e-6 lower",
    lambda x: x.max(axis=-1),
    take_largest,
    np.array([[1.0, 2.0, 2.0 - 1e-6], [0.3, 0.1, 0.2]]),
    step=1e-8,
)
add(
    "max of a tie, to the first",
    "each share from 0 to 1 is a subgradient",
    lambda x: x.max(axis=-1),
    take_largest,
    TIES,
    kink=True,
    dtypes=ALL,
)
add(
    "max of a tie, shared",
    "each share from 0 to 1 is a subgradient",
    lambda x: x.max(axis=-1),
    share_largest,
    TIES,
    kink=True,
    dtypes=ALL,
)
add(
    "median",
    "all slopes but one are 0",
    lambda x: np.sort(x)[x.size // 2] * np.ones(1, dtype=x.dtype),
    lambda x, d_y: ((np.argsort(np.argsort(x)) == x.size // 2) * d_y,),
    draw(7),
    dtypes=ALL,
)
add(
    "the two largest of five",
    "discontinuous choice; the third is 1e-4 lower",
    lambda x: np.sort(x)[-2:].sum(keepdims=True),
    lambda x, d_y: ((np.argsort(np.argsort(x)) >= x.size - 2) * d_y,),
    np.array([1.0, 3.0, 2.9999, 5.0, 0.0]),
    step=1e-6,
)
add(
    "sort",
    "the Jacobian is a permutation",
    lambda x: np.sort(x),
    lambda x, d_y: (d_y[np.argsort(np.argsort(x))],),
    draw(8),
    dtypes=ALL,
)
add(
    "max pooling with equal windows",
    "a kink in each window",
    lambda x: x.reshape(2, 2).max(axis=1),
    lambda x, d_y: (take_largest(x.reshape(2, 2), d_y)[0].reshape(-1),),
    np.array([1.0, 1.0, 0.5, 0.5]),
    kink=True,
    dtypes=ALL,
)
add(
    "a hinge loss on its margin",
    "a kink at 1",
    lambda x: np.maximum(1 - x, 0),
    lambda x, d_y: (-d_y * (x < 1),),
    np.array([1.0, 0.3, 2.0]),
    kink=True,
    dtypes=ALL,
)
