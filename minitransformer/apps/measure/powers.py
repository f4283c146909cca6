"""Powers fitted to measured values: the slope of one size, and the exponents of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np


def slope(x: Sequence[float], y: Sequence[float], last: int = 3) -> float | None:
    """Return p of the power law y ~ x^p through the last points: least squares of logarithms; None of fewer than 2."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0][-last:]
    if len(points) < 2:
        return None
    return float(np.polyfit([a for a, _ in points], [b for _, b in points], 1)[0])


def fit_powers(points: Sequence[Mapping[str, float]], names: Sequence[str], what: str) -> dict[str, float]:
    """Return the exponents of a product of powers: least squares of logarithms, over all points at once.

    Parameters
    ----------
    points : sequence of mappings
        With each of the names, and the measured value.
    names : sequence of str
        The sizes whose exponents to fit.
    what : str
        The name of the measured value.

    Returns
    -------
    dict of str to float
        An exponent for each name.
    """
    sizes = np.log([[point[name] for name in names] for point in points])
    columns = np.column_stack([np.ones(len(points)), sizes])
    found = np.linalg.lstsq(columns, np.log([point[what] for point in points]), rcond=None)[0]
    return dict(zip(names, map(float, found[1:]), strict=True))
