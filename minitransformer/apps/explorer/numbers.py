"""Arrays as JSON: statistics of the whole, and windows of values."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from math import isfinite, prod
from typing import Any

import numpy as np

from minitransformer.arrays import Array, to_numpy

MOST_VALUES = 65_536
"""The most values in one answer."""

BLOCK = 65_536
"""How many values statistics are computed of at a time: they stay in the processor's cache."""


def finite(number: Any) -> float | None:
    """Return a number as JSON can hold it: None for NaN and the infinities."""
    number = float(number)
    return number if isfinite(number) else None


def statistics(array: Any) -> dict[str, float | None]:
    """Return mean, standard deviation (``spread``), least, most and Euclidean norm of the finite entries."""
    whole = to_numpy(array)
    values = whole.ravel(order="K" if whole.size > BLOCK else "C")
    with np.errstate(over="ignore", invalid="ignore"):  # memory that is not filled yet may hold anything
        blocks = [_block(values[first : first + BLOCK]) for first in range(0, values.size, BLOCK)]
        n, total, squares, deviations, least, most = np.array([one for one in blocks if one[0]]).reshape(-1, 6).T
        if not n.size:
            return dict.fromkeys(("mean", "spread", "least", "most", "norm"), None if values.size else 0.0)
        mean = total.sum() / n.sum()
        between = (n * (total / n - mean) ** 2).sum()
        return {
            "mean": finite(mean),
            "spread": finite(np.sqrt((deviations.sum() + between) / n.sum())),
            "least": finite(least.min()),
            "most": finite(most.max()),
            "norm": finite(np.sqrt(squares.sum())),
        }


def _block(values: Array) -> tuple[float, ...]:
    """Return number, sum, sum of squares, sum of squared deviations from the mean, least and most of finite entries."""
    values = np.asarray(values, dtype=np.float64)
    finite_ones = np.isfinite(values)
    if not finite_ones.all():
        values = values[finite_ones]
    if not values.size:
        return (0.0,) * 6
    total = values.sum()
    products = values - total / values.size
    products *= products
    deviations = products.sum()
    np.multiply(values, values, out=products)  # a product by the BLAS would wait for its threads
    return values.size, total, products.sum(), deviations, values.min(), values.max()


def encode(array: Any) -> str:
    """Return an array's values as base64 of little-endian float32, in C order."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.asarray(to_numpy(array), dtype="<f4").tobytes()).decode("ascii")


def picture_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns in which an array is shown: its last two axes; a vector is one row."""
    rows, columns = (1, 1, *shape)[-2:]
    return int(rows), int(columns)


def window(
    array: Any,
    at: Sequence[int] = (),
    rows: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
    stride: Sequence[int] = (1, 1),
) -> dict[str, Any]:
    """Return part of an array's last two axes, at an index of the others.

    Parameters
    ----------
    array : array
        Any shape; booleans and whole numbers are shown as numbers.
    at : sequence of int
        The index of each leading axis; those that are not given are 0.
    rows, columns : (int, int), optional
        From where to where (exclusive); by default all.
    stride : (int, int)
        Every how many rows and columns one is taken, for an overview.

    Returns
    -------
    dict
        shape, rows, columns, stride, values (base64), and least and most of the whole array's finite entries.

    Raises
    ------
    ValueError
        If the window is not inside the array, or has more than 65,536 values.
    """
    values = to_numpy(array)
    n_rows, n_columns = picture_shape(values.shape)
    leading = values.shape[:-2]
    if len(at) > len(leading) or any(place >= size for place, size in zip(at, leading, strict=False)):
        raise ValueError(f"the index {list(at)} is not in the leading axes {list(leading)} of {values.shape}")
    picture = values.reshape(*leading, n_rows, n_columns)[(*at, *[0] * (len(leading) - len(at)))]
    chosen = [_range("rows", rows, n_rows, stride), _range("columns", columns, n_columns, stride[1:])]
    if prod(map(len, chosen)) > MOST_VALUES:
        raise ValueError(
            f"the window has {len(chosen[0]):,} x {len(chosen[1]):,} values, expected at most {MOST_VALUES:,}; "
            "ask for fewer rows and columns, or give a stride"
        )
    whole = statistics(values)
    return {
        "shape": list(values.shape),
        "rows": [chosen[0].start, chosen[0].stop],
        "columns": [chosen[1].start, chosen[1].stop],
        "stride": [chosen[0].step, chosen[1].step],
        "values": encode(picture[chosen[0].start : chosen[0].stop : chosen[0].step][
            :, chosen[1].start : chosen[1].stop : chosen[1].step
        ]),
        "least": whole["least"],
        "most": whole["most"],
    }  # fmt: skip


def _range(name: str, ends: Sequence[int] | None, size: int, stride: Sequence[int]) -> range:
    start, stop = (0, size) if ends is None else ends
    if not 0 <= start <= stop <= size:
        raise ValueError(f"{name} {[start, stop]} are not in 0 to {size}")
    return range(start, stop, stride[0])
