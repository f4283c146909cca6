"""Comparisons: intervals of means and of differences, corrected for their number; ratios of programs that took turns.

For two independent samples with means m, variances s² and sizes n:

    e² = s_a² / n_a + s_b² / n_b                     (1)        the variance of m_b - m_a
    t  = (m_b - m_a) / e                             (2)
    ν  = e⁴ / Σ (s² / n)² / (n - 1)                  (3)        degrees of freedom

p is the probability of a larger |t| if the true means are equal. The interval is m_b - m_a ± t_0.975 e. A true
difference of (t_0.975 + t_0.8) e has p < 0.05 in about 80 % of all experiments of this size; a smaller one is often
missed. For one sample, such as the differences of paired measurements, e² = s² / n and ν = n - 1.

Sources: The Generalization of "Student's" Problem when Several Different Population Variances are Involved (Welch,
1947); A Simple Sequentially Rejective Multiple Test Procedure (Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
POWER = 0.8


class Interval(NamedTuple):
    """A mean, or the difference of two, with its confidence interval."""

    mean: float
    low: float
    high: float
    p: float
    """The probability of a mean as far from 0, or farther, if the true mean is 0."""
    detectable: float
    """The true mean that the test finds, with p < 0.05, in 80 % of all experiments of this size."""


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of a sample with its confidence interval.

    Parameters
    ----------
    values : sequence of float
        At least two numbers, such as the differences of paired measurements.
    level : float
        How often such an interval contains the true mean, above 0 and below 1.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError
        If there are fewer than two numbers.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"mean_interval: found a sample of size {n}, expected at least 2 numbers")
    return _interval(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n), n - 1, level)


def compare_means(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Return the mean of b less that of a, with its 95 % interval: Welch's t-test.

    Parameters
    ----------
    a, b : sequences of float
        The samples, of at least two numbers each.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError
        If a sample has fewer than two numbers.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError(
            f"compare_means: found samples of sizes {len(a)} and {len(b)}, expected at least 2 numbers in each"
        )
    parts = [float(np.var(x, ddof=1)) / len(x) for x in (a, b)]
    error = math.sqrt(sum(parts))  # (1)
    squares = sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True))
    freedom = sum(parts) ** 2 / squares if error else math.inf  # (3)
    return _interval(float(np.mean(b) - np.mean(a)), error, freedom, 0.95)


def _interval(mean: float, error: float, freedom: float, level: float) -> Interval:
    if error == 0:
        return Interval(mean, mean, mean, float(mean == 0), 0.0)
    reach = t_quantile((1 + level) / 2, freedom) * error
    p = 2 * t_probability(-abs(mean) / error, freedom)  # (2)
    detectable = (t_quantile(0.975, freedom) + t_quantile(POWER, freedom)) * error
    return Interval(mean, mean - reach, mean + reach, p, detectable)


def holm(p: Sequence[float]) -> list[float]:
    """Return p of several comparisons, corrected for their number.

    Without any effect, the smallest is below 0.05 in at most 5 % of all experiments. The smallest of n is multiplied by
    n, the next by n - 1, and so on; none becomes smaller than the one before it.
    """
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1, np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in corrected]


def t_probability(t: float, freedom: float) -> float:
    """Return the probability that Student's t is at most a value, by quadrature over θ with t = √ν tan θ."""
    return _below(math.atan(t / math.sqrt(freedom)), freedom)


def t_quantile(probability: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with a probability of 1 - p."""
    low, high = -math.pi / 2, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < probability else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _below(angle: float, freedom: float) -> float:
    """Return the probability that t is at most √ν tan θ: 1/2 + c ∫ cos^(ν-1), from 0 to θ."""
    integral = angle / 2 * float(WEIGHTS @ np.cos(angle / 2 * (NODES + 1)) ** (freedom - 1))
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return 0.5 + factor * integral


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

    Within a round both ran under the same conditions; between rounds these may have changed.
    """
    rounds = [median(a) / median(b) for a, b in zip(theirs, ours, strict=False)]
    return Ratio(median(rounds), min(rounds), max(rounds), rounds)
