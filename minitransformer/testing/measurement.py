"""How the slope of a function is measured along a direction, beside what a gradient claims.

Next: ``steps.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.case import Case, draw_direction
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.slopes import N_STEPS, measure
from minitransformer.testing.steps import BETWEEN, COARSEST, Slope, first_step, glance, scatter, short

OBVIOUS = 1e-3
"""A relative difference that a few steps more would not remove."""
FAR = 100.0
UNCLEAR = 0.01
"""If an error bound is this fraction of the largest gradient of an input, or more, the verdict is "undecided"."""
COARSER = 256.0
"""How much larger the error of a wrong claim's measurement may be than what one step tells of it."""
INSIDE = (2.0**-14, 2.0**-18, 2.0**-22)
"""How far inputs move, relative to their sizes, where rounding inside a function is looked for."""
LARGER, MOST_LARGER = 2.0**8, 16
"""By how much steps grow while rounding hides the slope, and how often."""


class Measurement:
    """Gradients that are claimed for L = Σ d_output y, and how they are measured."""

    case: Case
    rng: np.random.Generator
    gradients: dict[int, Array]
    d_output: Array
    start: Array
    """y at the inputs."""
    size: float
    """The sum of the absolute values of the terms of L."""
    quick: bool
    """Whether a subgradient passes, and what rounding hides, and a jump is wrong."""
    smooth = False
    """Whether the function is known to have no narrow steep part near the inputs."""
    eps: float = EPS
    """The distance from 1 to the next number of the coarsest type."""
    tolerance: float
    """The relative error of a gradient that is not yet wrong."""
    _scatter: Array | None = None

    def along(self, i: int, direction: Array) -> float:
        """Return the claimed slope along a direction; an infinite entry counts only if it moves."""
        moved = direction != 0
        with np.errstate(invalid="ignore"):  # infinities of both signs have no sum
            return float((self.gradients[i][moved] * direction[moved]).sum())

    def slope(self, i: int, direction: Array, length: float, is_wrong: bool = False) -> Slope:
        """Measure how L changes along a direction in one input, which is smooth over about this length.

        A claim is accepted after two calls of the function where it agrees with their difference. Many calls are made
        before it is refuted, unless the gradient ``is_wrong`` elsewhere.
        """
        known = self.gradients[i].shape == direction.shape
        along = self.along(i, direction) if known else float("nan")
        loss = self.case.loss({i: direction}, self.d_output.astype(np.float64), self.start, self.eps)
        if self.eps <= EPS:
            slope, is_smooth = glance(loss, short(length * self._glance_step(along * length), self.eps))
            difference, size = abs(slope.value - along), max(abs(slope.value), abs(along))
            if is_smooth and difference <= self.tolerance * size:
                if not self._is_hidden(i, slope, along):
                    return slope
            elif is_smooth and (is_wrong or not known) and not difference <= OBVIOUS * size + FAR * slope.error:
                return slope._replace(error=slope.error + self.tolerance * size)
        enough = 1 if is_wrong or not known else N_STEPS

        def noise_inside() -> float:
            return self._noise_inside(i, direction, length)

        def from_step(h: float) -> Slope:
            return measure(loss, h, along, self.tolerance, self.smooth, self.eps, enough, noise_inside)

        slope = from_step(short(first_step(self.eps) * length, self.eps))
        if known and self._is_hidden(i, slope, along):
            slope = self._with_larger_steps(i, slope, along, length, from_step)
        if known and slope.sides is None and slope.disagreement(along, self.tolerance) > self.tolerance:
            slope = slope._replace(error=slope.error + self.noise_along(i, direction))
        return slope

    def _noise_inside(self, i: int, direction: Array, length: float) -> float:
        """Return how far rounding inside the function moves L, which one entry that moves may not show.

        The probability of a class that is almost certain is 1 up to a few roundings, and stands still while another
        one moves. So all inputs move, and each entry of y that depends on the one scatters about a cubic polynomial, by
        as much at two distances in a row: a smooth function scatters far less at the shorter one. What scatters more
        than rounding beside 1 may turn.
        """
        if self._scatter is None:
            rng = self.rng.spawn(1)[0]
            scales = {j: self.case.scales(j, typical=False) for j in self.gradients}
            value = self.case.along({j: draw_direction(rng, self.case.inputs[j]) * scales[j] for j in scales})
            found = [scatter(np.array([value((3 + t) * h)[0] for t in BETWEEN])) for h in INSIDE]
            most = COARSEST * self.eps * np.maximum(1.0, np.abs(self.start.reshape(-1)))
            self._scatter = np.max([np.minimum(*pair) for pair in itertools.pairwise(found)], axis=0)
            self._scatter = np.where(self._scatter <= most, self._scatter, 0.0)
        moved = self.case.along({i: direction})(length * INSIDE[0])[0] != self.start.reshape(-1)
        found = np.abs((self.d_output.reshape(-1) * self._scatter)[moved])
        largest = found.max(initial=0.0) or 1.0
        return float(largest * np.linalg.norm(found / largest))

    def confirms(self, slope: Slope, claimed: float) -> bool:
        """Return whether a measured slope shows that a claimed one is right."""
        clear = slope.sides is None and slope.error <= UNCLEAR * abs(claimed)
        return clear and slope.disagreement(claimed, self.tolerance) <= self.tolerance

    def _is_hidden(self, i: int, slope: Slope, along: float) -> bool:
        """Return whether rounding hides a slope: its error is large beside it and beside all gradients of an input."""
        largest = max(abs(slope.value), abs(along), float(np.abs(self.gradients[i]).max(initial=0.0)))
        return slope.error > UNCLEAR * largest > 0

    def _with_larger_steps(
        self, i: int, slope: Slope, along: float, length: float, from_step: Callable[[float], Slope]
    ) -> Slope:
        """Return a slope from larger steps, while they reduce its error.

        Steps longer than ``length`` may miss what the function does near x, so they confirm a claim and refute none.
        Nor do others, where all steps may have missed it.
        """
        may_refute = slope.error < np.inf
        for n in range(1, MOST_LARGER):
            h = first_step(self.eps) * LARGER**n
            larger = from_step(short(h * length, self.eps))
            better = larger.sides is None and larger.error < slope.error  # False if it is not finite
            refutes = larger.disagreement(along, self.tolerance) > self.tolerance
            if not better or (refutes and (h > 1 or not may_refute)):
                break
            slope = larger
            if not self._is_hidden(i, slope, along):
                break
        return slope

    def _glance_step(self, slope: float) -> float:
        """Return the step at which the errors of D(h), about h² and ε |L| / (h |slope|), are equal."""
        ratio = self.size / abs(slope) if np.isfinite(slope) and slope else np.inf
        return float(np.clip((EPS * ratio) ** (1 / 3), 2.0**-17, 2.0**-10))

    def unseen(self, slope: Slope, along: float, length: float) -> float:
        """Return the error of a claim that would not have been found, where a claim agrees with a measured slope.

        A wrong claim is measured again, with several steps. How well is known only then, but what is known of one step
        tells about the others: with an error of T h² from truncation, and one of N / h from rounding in the value and
        in x, the best step has an error of about (T N²)^(1/3). A step is up to 4 times longer or shorter than the best.
        """
        known = abs(along - slope.value) if slope.sides is None else 0.0
        error = known + slope.error
        noise = slope.rounding / 8 + (self.eps * abs(along) * length / slope.h if slope.h else 0.0)
        best = error ** (1 / 3) * noise ** (2 / 3)
        return known + max(self.tolerance * max(abs(along), abs(slope.value)), COARSER * max(error, best))

    def noise_along(self, i: int, direction: Array) -> float:
        """Return the error along a direction that the rounding of the backward pass explains."""
        raise NotImplementedError
