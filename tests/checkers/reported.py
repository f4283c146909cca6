"""Cases that users of gradient checkers reported, rebuilt from their threads.

Where a thread names a difficulty and no function, the function is ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sample import Sample

PYTORCH = "https://github.com/pytorch/pytorch/"


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

REPORTED = [
    Sample(
        name="renorm with its two cases swapped",
        group="reported",
        forward=renorm,
        backward=lambda x, d_y: renorm_backward(x, d_y, blend_is_swapped=True),
        inputs=(draw(25, 5),),
        right=False,
        note="the kernel exchanged its two cases; the fast mode of `gradcheck` accepted it, as the Jacobian consists "
        "mostly of zeros",
        source=PYTORCH + "pull/59615",
    ),
    Sample(
        name="renorm, wrong in one row of 150",
        group="reported",
        forward=renorm,
        backward=lambda x, d_y: (np.where(np.sqrt((x * x).sum(axis=-1, keepdims=True)) > 0.5, 0.9, 1) * d_y,),
        inputs=(ONE_LONG_ROW,),
        right=False,
        note="the report behind the same mistake: the fast mode is blind where only a few entries of a large Jacobian "
        "differ",
        dtypes=("float64",),
        source=PYTORCH + "issues/59584",
    ),
    Sample(
        name="sort of close numbers",
        group="reported",
        forward=lambda x: np.sort(x),
        backward=lambda x, d_y: (d_y[np.argsort(np.argsort(x, kind="stable"), kind="stable")],),
        inputs=((1.0 + 3e-7 * np.arange(40))[ORDER],),
        right=True,
        note="a step of 1e-6 changes the order, so the slow mode rejected it",
        dtypes=("float64",),
        step=1e-8,
        source=PYTORCH + "issues/57166",
    ),
    Sample(
        name="second derivative of cumprod",
        group="reported",
        forward=cumprod_backward,
        backward=cumprod_second,
        inputs=(draw(6) * 3, draw(6, seed=4)),
        right=True,
        note="products of many scales; the fast mode rejected it while all entries agreed to 3e-13",
        source=PYTORCH + "issues/56275",
    ),
    Sample(
        name="a linear layer in float32",
        group="reported",
        forward=lambda x, w, b: x @ w + b,
        backward=lambda x, w, b, d_y: (d_y @ w.T, x.T @ d_y, d_y.sum(axis=0)),
        inputs=(np.random.default_rng(0).random((1, 2)), draw(2, 1), draw(1)),
        right=True,
        note="in float32 a step of 1e-6 leaves two digits of the difference",
        source=PYTORCH + "issues/5351",
    ),
    Sample(
        name="average pooling of whole numbers",
        group="reported",
        forward=partial(pool, largest=False),
        backward=partial(pool_backward, largest=False),
        inputs=(IMAGES,),
        right=True,
        note="`gradcheck` found 0.4768 for 0.1667 in float32: a step of 1e-6 is a few roundings of the sum",
        dtypes=("float64", "float32", "float16"),
        source=PYTORCH + "issues/44662",
    ),
    Sample(
        name="max pooling of whole numbers",
        group="reported",
        forward=partial(pool, largest=True),
        backward=partial(pool_backward, largest=True),
        inputs=(IMAGES,),
        right=True,
        note="the same thread, which names both",
        dtypes=("float64", "float32", "float16"),
        source=PYTORCH + "issues/44662",
    ),
    Sample(
        name="the corners of a box",
        group="reported",
        forward=corners,
        backward=corners_backward,
        inputs=(BOX,),
        right=True,
        kink=True,
        note="four vertices share each corner coordinate; `gradcheck` compared PyTorch's subgradient of 1/4 with its "
        "central difference of 1/2, and the method raised an error for five years because of that",
        source="https://github.com/kornia/kornia/pull/4184",
    ),
    Sample(
        name="sine in float16",
        group="reported",
        forward=lambda x: np.sin(x),
        backward=lambda x, d_y: (d_y * np.cos(x),),
        inputs=(np.array([0.3, 1.0, -1.4]),),
        right=True,
        note="a step of 1e-4 does not change a number of float16 near 1, so the difference is zero",
        dtypes=("float64", "float32", "float16"),
        source="https://github.com/jax-ml/jax/issues/7742",
    ),
    Sample(
        name="ReLU at its kink",
        group="reported",
        forward=lambda x: np.maximum(x, 0),
        backward=lambda x, d_y: (d_y * (x > 0),),
        inputs=(np.array([-1.0, 0.0, 2.0, 0.0]),),
        right=True,
        kink=True,
        note="a checker should accept each slope between those on both sides",
        source="https://github.com/BVLC/caffe/issues/1334",
    ),
    Sample(
        name="a solver with a large input",
        group="reported",
        forward=solve_drag,
        backward=solve_drag_backward,
        inputs=(np.array([2.1e4, 1.3e4, 4.4e4]),),
        right=True,
        note="an absolute step of 1e-6 at 2e4 disappears in what the solver leaves of its residual",
        dtypes=("float64",),
        step=1e-3,
        tolerance=1e-5,
        source="https://github.com/pasteurlabs/tesseract-core/issues/706",
    ),
    Sample(
        name="a large constant beside a small term",
        group="reported",
        forward=lambda x: 1e6 + x * x,
        backward=lambda x, d_y: (2 * x * d_y,),
        inputs=(draw(5),),
        right=True,
        note="the fixed step of 1.5e-8 is too small for the digits that the value has left",
        dtypes=("float64",),
        step=0.1,
        source="https://github.com/scipy/scipy/pull/3945",
    ),
]
