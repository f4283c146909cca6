"""Figures from measured times: medians, ratios and slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

__all__ = ["Ratio", "median_of_all", "ratio", "slope"]


class Ratio(NamedTuple):
    """How many times as long one program takes as another."""

    median: float
    least: float
    most: float
    rounds: list[float]


def median_of_all(rounds: Sequence[Sequence[float]]) -> float:
    """Return the median over all steps of all rounds."""
    return median(chain.from_iterable(rounds))


def ratio(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> Ratio:
    """Compare two programs that took turns: in each round their median over ours, then the median over the rounds.

    Within a round both met the same machine; between rounds it may have changed.
    """
    rounds = [median(a) / median(b) for a, b in zip(theirs, ours, strict=False)]
    return Ratio(median(rounds), min(rounds), max(rounds), rounds)


def slope(x: Sequence[float], y: Sequence[float], last: int = 3) -> float | None:
    """Return p of the power law y ~ x^p through the last points: least squares of logarithms; None of fewer than 2."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0][-last:]
    if len(points) < 2:
        return None
    mean_x = sum(a for a, _ in points) / len(points)
    mean_y = sum(b for _, b in points) / len(points)
    return sum((a - mean_x) * (b - mean_y) for a, b in points) / sum((a - mean_x) ** 2 for a, _ in points)
