"""The gradient checker: compares backward passes with finite differences.

For a function y = f(x) and a random cotangent c of the shape of y, let L(x) = Σ c y. The backward pass claims a
gradient of L. The checker moves one entry of x at a time and measures how fast L changes (see ``slopes``). The claim g
and the measurement n agree if

    |g - n| / max(|g|, |n|, floor) <= tolerance          floor = (the error of n) / tolerance

so a small gradient must have the same relative accuracy as a large one, down to the error of the measurement. A
constant cotangent would miss mistakes: the rows of a softmax sum to one, whatever its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.testing.case import Case
from minitransformer.testing.causes import likely_cause
from minitransformer.testing.slopes import STEP, Slope, measure

__all__ = ["GradientError", "GradientReport", "InputReport", "gradcheck"]


@dataclass
class InputReport:
    """The result for the gradient of one input."""

    name: str
    shape: tuple[int, ...]
    comparisons: int = 0
    """How many entries and directions were compared."""
    directions: int = 0
    """How many of these were directions, in which all entries move at once."""
    wrong: int = 0
    entries_wrong: int = 0
    """How many of the wrong ones were entries."""
    worst_error: float = 0.0
    """The largest relative error among reliable measurements."""
    worst_index: tuple[int, ...] | None = None
    """Its index; None if it was in a direction."""
    claim: float = 0.0
    """The backward pass at the worst place."""
    measurement: float = 0.0
    """The finite difference there."""
    sides: tuple[float, float] | None = None
    """The slopes on both sides, if there is a kink at the worst place."""
    kinks: list[tuple[int, ...]] = field(default_factory=list)
    """Entries where the function has a kink: there the claim must lie between the slopes on both sides."""
    jumps: list[tuple[int, ...]] = field(default_factory=list)
    """Entries where the function jumps, which ``check`` does not compare."""
    guess: str = ""
    differences: Array = field(default_factory=lambda: np.empty(0))
    """The finite differences, in the shape of the input; NaN where none was taken."""
    largest: float = 0.0
    """The largest gradient among the comparisons, claimed or measured."""
    resolution: float = 0.0
    """The largest error bound of a measurement; infinite if one was not finite."""

    certain: float = 0.0
    """The error from which on a single wrong entry is found in a direction, if entries were not all moved alone."""

    def enter(self, claim: float, slope: Slope, tolerance: float, index: tuple[int, ...] | None) -> None:
        """Record one comparison: of the entry at an index, or of a direction."""
        known = not np.isnan(slope.value)
        self.resolution = max(self.resolution, slope.error if known else np.inf)
        self.largest = max(self.largest, *(abs(x) for x in (claim, slope.value) if np.isfinite(x)), 0.0)
        error = slope.disagreement(claim, tolerance)
        if error > self.worst_error or not self.comparisons:
            self.worst_error, self.worst_index, self.sides = error, index, slope.sides
            self.claim, self.measurement = claim, slope.value
        self.comparisons += 1
        self.directions += index is None
        self.wrong += error > tolerance
        self.entries_wrong += error > tolerance and index is not None
        if slope.sides is not None and index is not None:
            self.kinks.append(index)

    def __str__(self) -> str:
        text = f"input {self.name}, shape {self.shape}: "
        n = self.comparisons - self.directions
        what = "1 entry" if n == 1 else f"{n} entries"
        what += f" and {self.directions} direction{'s' if self.directions > 1 else ''}" if self.directions else ""
        kinks = f", kinks at {', '.join(str(list(index)) for index in self.kinks[:5])}" if self.kinks else ""
        kinks += f" and {len(self.kinks) - 5} more" if len(self.kinks) > 5 else ""
        if not self.wrong:
            agree = "agrees" if self.comparisons == 1 else "agree"
            text += f"{what} {agree}, worst relative error {self.worst_error:.1e}{kinks}"
            if not self.certain:
                return text
            alone = (self.comparisons - self.directions) / prod(self.shape)
            return text + (
                f"\n    a single wrong entry is found if it is off by {self.certain:.1e} or more; one that is off by "
                f"less, with a probability of at least {alone:.1g}"
            )
        place = f"at {list(self.worst_index)}" if self.worst_index is not None else "in a random direction"
        lines = [
            text + f"{self.wrong} of {what} wrong, the worst {place}{kinks}",
            f"    backward            {self.claim: .10g}",
            f"    finite differences  {self.measurement: .10g}",
            f"    relative error      {self.worst_error: .2g}",
        ]
        if self.sides is not None:
            lines[2] = f"    finite differences  {self.sides[0]: .10g} on one side, {self.sides[1]: .10g} on the other"
        return "\n".join(lines + ([f"    guess: {self.guess}"] if self.guess else []))


@dataclass
class GradientReport:
    """What ``gradcheck`` found; printed, it is readable."""

    name: str
    inputs: list[InputReport]
    constants: list[str]
    """Inputs without a gradient: whole numbers, booleans, and what is not an array."""

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees."""
        return not any(report.wrong for report in self.inputs)

    @property
    def worst_error(self) -> float:
        """The largest relative error of all inputs."""
        return max((report.worst_error for report in self.inputs), default=0.0)

    def __str__(self) -> str:
        verdict = "agrees with" if self.passed else "DIFFERS from"
        lines = [f"{self.name}: the backward pass {verdict} finite differences"]
        lines += [f"  {report}" for report in self.inputs]
        if self.constants:
            lines.append(f"  without a gradient: {', '.join(self.constants)}")
        return "\n".join(lines)


class GradientError(AssertionError):
    """A gradient is wrong; ``report`` holds what was compared."""

    def __init__(self, report: GradientReport) -> None:
        super().__init__(str(report))
        self.report = report


def gradcheck(
    function: Callable[..., Tensor],
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    d_output: Any = None,
    tolerance: float = 1e-7,
    max_entries: int = 256,
    n_directions: int = 8,
    seed: int = 0,
    smooth: bool = False,
    **options: Any,
) -> GradientReport:
    """Compare a function's backward pass with finite differences.

    Parameters
    ----------
    function : callable
        A function of tensors that returns a tensor; an ``Operation`` is one. It must be deterministic: if it draws from
        its own generator, it has to seed it on each call.
    inputs : sequence of array or other
        The arguments of the function. Gradients of floating-point arrays are checked, in float64; other arguments are
        passed on unchanged, random generators as copies, so that all calls draw the same numbers. Infinite entries
        cannot be moved, so they are skipped.
    names : sequence of str, optional
        The inputs' names, for the report; by default those of an operation's ``forward``, and numbers otherwise.
    d_output : array, optional
        The cotangent; random and non-uniform by default.
    tolerance : float
        The allowed relative error, beyond the error of the measurement itself.
    max_entries : int
        Inputs with at most this many entries are checked entry by entry; of larger ones, this many random entries and
        some random directions, which move all entries at once.
    n_directions : int
        How many directions.
    seed : int
        Seeds the cotangent, the choice of entries and the directions.
    smooth : bool
        Whether the function is known to have no narrow steep part near the inputs. Then wrong gradients are found with
        fewer calls; if the assumption is false, right gradients may be reported as wrong.
    **options
        Passed on to the function.

    Returns
    -------
    GradientReport
        The comparisons and how well they agree.

    Raises
    ------
    AssertionError
        If a gradient is wrong, or the function wrote into its input. The message shows the input, the index, both
        numbers, and a guess where it is clear. A wrong gradient's error is a ``GradientError`` and has the report.
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If the check is impossible: no input has a gradient, or the function is not deterministic or not finite.

    Examples
    --------
    >>> x = np.array([[0.5, -1.0, 2.0]])
    >>> mt.testing.gradcheck(mt.ops.softmax, [x]).worst_error < 1e-7
    True
    >>> wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (x * d_y,), name="square")
    >>> mt.testing.gradcheck(wrong, [x])
    Traceback (most recent call last):
        ...
    minitransformer.testing.gradcheck.GradientError: ...
    """
    case = Case("gradcheck", function, inputs, options, names)
    rng = np.random.default_rng(seed)
    cotangent, gradients = case.claim(rng, d_output)

    reports = []
    for i, gradient in gradients.items():
        x = to_numpy(case.inputs[i])
        report = InputReport(case.names[i], x.shape)
        movable = np.flatnonzero(np.isfinite(x))
        typical = float(np.median(np.abs(x.flat[movable]))) if movable.size else 0.0
        differences = np.full(x.shape, np.nan)
        middle = case.loss(i, np.zeros_like(x), cotangent)(0.0)[0]
        few = movable.size <= max_entries
        for flat in movable if few else sorted(rng.choice(movable, max_entries, replace=False)):
            index = tuple(int(n) for n in np.unravel_index(flat, x.shape))
            direction = np.zeros_like(x)
            direction[index] = 1.0
            step = STEP * (max(abs(float(x[index])), typical) or 1.0)
            slope = measure(case.loss(i, direction, cotangent), middle, step, float(gradient[index]), tolerance, smooth)
            differences[index] = slope.value
            report.enter(float(gradient[index]), slope, tolerance, index)
        for _ in range(0 if few else n_directions):
            direction = np.round(16 * rng.standard_normal(x.shape)) / 16 * np.isfinite(x)  # moves without rounding
            along = float((gradient * direction).sum())
            slope = measure(
                case.loss(i, direction, cotangent), middle, STEP * (typical or 1.0), along, tolerance, smooth
            )
            report.enter(along, slope, tolerance, None)
        if report.wrong:
            known = np.isfinite(differences)  # at a jump there is no derivative to compare with
            where = ... if known.all() else known
            report.guess = likely_cause(gradient[where], differences[where], subject="the gradient")
        report.differences = differences
        reports.append(report)

    constants = [name for i, name in enumerate(case.names) if i not in case.moving]
    report_of_all = GradientReport(case.name, reports, constants)
    if not report_of_all.passed:
        raise GradientError(report_of_all)
    return report_of_all
