"""Cases that users of gradient checkers reported, rebuilt from their threads.

Where a thread names a difficulty and no function, the function is ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sample import read_formulas


def renorm(x: Any, largest: float = 0.5) -> Any:
    """Scale rows longer than a length down to it."""
    norm = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    return x * np.where(norm > largest, largest / (norm + 1e-7), 1)


def renorm_backward(x: Any, d_y: Any, blend_is_swapped: bool = False) -> Any:
    """Differentiate renorm; the report's kernel had the two cases of the factor in the wrong order."""
    largest = 0.5
    norm = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    is_long = norm > largest
    factor = largest / (norm + 1e-7)
    along = (x * d_y).sum(axis=-1, keepdims=True) * x * largest / (norm * (norm + 1e-7) ** 2)
    if blend_is_swapped:
        return (d_y * np.where(is_long, 1, factor) - np.where(is_long, along, 0),)
    return (np.where(is_long, d_y * factor - along, d_y),)


def cumprod_backward(x: Any, d_y: Any) -> Any:
    """Return the gradient of a cumulative product, without a division."""
    n = len(x)
    d_x = np.zeros_like(x)
    for j in range(n):
        for k in range(j, n):
            d_x[j] += d_y[k] * np.prod(np.delete(x[: k + 1], j))
    return d_x


def cumprod_second(x: Any, d_y: Any, d_d_x: Any) -> Any:
    """Differentiate ``cumprod_backward`` by both of its inputs."""
    n = len(x)
    by_x, by_d_y = np.zeros_like(x), np.zeros_like(d_y)
    for j in range(n):
        for k in range(j, n):
            by_d_y[k] += d_d_x[j] * np.prod(np.delete(x[: k + 1], j))
            for m in range(k + 1):
                if m != j:
                    by_x[m] += d_d_x[j] * d_y[k] * np.prod(np.delete(x[: k + 1], [j, m]))
    return by_x, by_d_y


def solve_drag(a: Any) -> Any:
    """Solve y + y³ / 3 = log(1 + a) by Newton's method to 1e-9, as a simulation would."""
    target = np.log1p(a)
    y = np.zeros_like(a)
    for _ in range(100):
        step = (y + y**3 / 3 - target) / (1 + y * y)
        y = y - step * a.dtype.type(0.7)  # damped, so that it stops at its tolerance, not at the solution
        if np.abs(step).max() < 1e-9:
            break
    return y


def solve_drag_backward(a: Any, d_y: Any) -> Any:
    """Differentiate the solution itself: dy/da = 1 / ((1 + y²) (1 + a))."""
    y = solve_drag(a)
    return (d_y / ((1 + y * y) * (1 + a)),)


def pool(x: Any, largest: bool) -> Any:
    """Return the sum of the means, or of the largest numbers, of the left and right halves of two images."""
    windows = x.reshape(2, 3, 2, 2)
    return (windows.max(axis=(1, 3)) if largest else windows.mean(axis=(1, 3))).sum(keepdims=True)


def pool_backward(x: Any, d_y: Any, largest: bool) -> Any:
    """Spread the gradient over each window, or give it to the largest number."""
    windows = x.reshape(2, 3, 2, 2)
    share = windows == windows.max(axis=(1, 3), keepdims=True) if largest else np.full_like(windows, 1 / 6)
    return ((share * d_y).reshape(x.shape),)


def corners(vertices: Any) -> Any:
    """Return the lowest and the highest corner of a box from its eight vertices."""
    return np.stack([vertices.min(axis=0), vertices.max(axis=0)])


def corners_backward(vertices: Any, d_y: Any) -> Any:
    """Share the gradient evenly between the vertices that are at a corner, as PyTorch does."""
    d_vertices = np.zeros_like(vertices)
    for extreme, d in zip(corners(vertices), d_y, strict=True):
        is_there = vertices == extreme
        d_vertices += is_there * d / is_there.sum(axis=0).astype(vertices.dtype)
    return (d_vertices,)


def draw(*shape: int, seed: int = 3) -> Any:
    """Draw standard normal numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


IMAGES = np.array(
    [
        [[1.0, 0.0, -1.0, 0.0], [2.0, 1.0, 1.0, -2.0], [-1.0, -2.0, -3.0, -4.0]],
        [[3.0, 1.0, 1.0, 7.0], [6.0, 5.0, 21.0, 3.0], [1.0, 2.0, 3.0, 4.0]],
    ]
)
BOX = np.array([[x, y, z] for x in (0.0, 2.0) for y in (0.0, 3.0) for z in (1.0, 5.0)])
ONE_LONG_ROW = 0.1 * np.random.default_rng(5).uniform(-1, 1, (150, 5))
ONE_LONG_ROW[77] *= 20
ORDER = np.random.default_rng(3).permutation(40)

REPORTED = read_formulas(__file__, globals(), group="reported")
