"""The gradient checker: compares backward passes with finite differences.

For a function y = f(x) and a random cotangent c of the shape of y, let L(x) = Σ c y. The backward pass claims a
gradient of L. The checker moves one entry of x at a time and measures how fast L changes (see ``slopes``). The claim g
and the measurement n agree if

    |g - n| / max(|g|, |n|, floor) <= tolerance          floor = (the error of n) / tolerance

so a small gradient must have the same relative accuracy as a large one, down to the error of the measurement. A
constant cotangent would miss mistakes: the rows of a softmax sum to one, whatever its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.testing.case import Case
from minitransformer.testing.causes import likely_cause
from minitransformer.testing.comparison import MAX_ENTRIES, N_DIRECTIONS, compare_input
from minitransformer.testing.input_report import InputReport, Power, power_of, require_sensible, shortfall
from minitransformer.testing.measured_slope import Slope
from minitransformer.testing.measurement import Measurement
from minitransformer.testing.subgradients import judge_ties

Word = Literal["right", "wrong", "kink", "undecided"]
HEADLINES: dict[Word, str] = {
    "right": "the backward pass agrees with finite differences",
    "wrong": "the backward pass DIFFERS from finite differences",
    "kink": "finite differences do not decide at these inputs",
    "undecided": "finite differences do not decide at these inputs",
}


@dataclass
class GradientReport:
    """What ``gradcheck`` found; printed, it is readable."""

    name: str
    inputs: list[InputReport]
    constants: list[str]
    """Inputs without a gradient: whole numbers, booleans, and what is not an array."""
    detects: float | None = None
    """The relative error that the check must be able to find."""
    verdict: Word = "right"
    """As that of ``check``; at a kink, "right" if the gradient lies between the slopes on both sides."""
    cause: str = ""
    """Why a gradient is wrong as a whole, or finite differences decide nothing."""

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees, and a wrong one would not."""
        return self.verdict == "right" and not shortfall(self.power, self.detects)

    @property
    def worst_error(self) -> float:
        """The largest relative error of all inputs."""
        return max((report.worst_error for report in self.inputs), default=0.0)

    @property
    def power(self) -> Power | None:
        """The smallest errors that would have been found; None if a gradient is wrong, or all are zero."""
        return power_of(self.inputs) if self.verdict in ("right", "undecided") else None

    def __str__(self) -> str:
        lines = [f"{self.name}: {HEADLINES[self.verdict]}"]
        lines += [f"  cause: {self.cause}"] if self.cause else []
        lines += [f"  {report}" for report in self.inputs]
        if self.constants:
            lines.append(f"  without a gradient: {', '.join(self.constants)}")
        lines += [f"  {self.power}"] if self.power else []
        lines += [f"  {shortfall(self.power, self.detects)}"] if not self.passed and self.verdict == "right" else []
        return "\n".join(lines)


class GradientError(AssertionError):
    """A gradient is wrong, or a wrong one would not be found; ``report`` holds what was compared."""

    def __init__(self, report: GradientReport) -> None:
        super().__init__(str(report))
        self.report = report


class _Claimed(Measurement):
    """The gradients that the backward pass of a case claims."""

    def __init__(self, case: Case, rng: np.random.Generator, d_output: Any, tolerance: float, smooth: bool) -> None:
        self.case, self.rng, self.smooth, self.tolerance = case, rng, smooth, tolerance
        self.d_output, self.gradients = case.claim(rng, d_output)
        copied = [to_numpy(x).copy(order=case.order) if i in case.moving else x for i, x in enumerate(case.inputs)]
        self.start = case.value(copied)  # in the same order in memory as when an input moves
        self.size = float(np.abs(self.d_output * self.start).sum())

    def gradients_for(self, d_output: Array) -> dict[int, Array]:
        """Return the gradients that the backward pass claims for another gradient of the output."""
        return self.case.gradients_for(d_output)

    def slope(self, i: int, direction: Array, length: float, is_wrong: bool = False) -> Slope:
        """Measure a slope as well beside wrong ones: the guess rests on it."""
        return super().slope(i, direction, length)


def gradcheck(
    function: Callable[..., Tensor],
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    d_output: Any = None,
    tolerance: float = 1e-7,
    max_entries: int = MAX_ENTRIES,
    n_directions: int = N_DIRECTIONS,
    seed: int = 0,
    smooth: bool = False,
    detects: float | None = None,
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
        cannot be moved: their gradients are wrong only if they are not finite.
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
    detects : float, optional
        The relative error that the check must be able to find, such as 1e-3; see ``GradientReport.power``.
    **options
        Passed on to the function.

    Returns
    -------
    GradientReport
        The comparisons and how well they agree.

    Raises
    ------
    AssertionError
        If a gradient is wrong, if finite differences decide nothing where smooth pieces of the function meet or between
        neighbouring numbers, if an error of ``detects`` might pass, or if the function wrote into its input. The
        message shows the input, the index, both numbers, and a guess where it is clear. A ``GradientError`` has the
        report.
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
    require_sensible("gradcheck", max_entries, n_directions, detects)
    if not 0 < tolerance < 1:
        raise ValueError(f"gradcheck: tolerance is {tolerance!r}; expected a relative error above 0 and below 1")
    case = Case("gradcheck", function, inputs, options, names)
    claimed = _Claimed(case, np.random.default_rng(seed), d_output, tolerance, smooth)
    compared = {}
    for i, gradient in claimed.gradients.items():
        record = compare_input(claimed, i, max_entries, n_directions)
        stuck = np.argwhere(~(np.isfinite(gradient) | np.isfinite(to_numpy(case.inputs[i]))))  # no step moves them
        for index in (*record.jumps, *record.unmeasured, *map(tuple, stuck.tolist())):
            record.enter(float(gradient[index]), Slope(float(record.differences[index]), 0.0), tolerance, index)
        compared[i] = record
    verdict, cause = _judge(claimed, compared)
    if verdict == "right" and (not_linear := claimed.why_not_linear()):
        verdict, cause = "wrong", not_linear
    for record, gradient in zip(compared.values(), claimed.gradients.values(), strict=True):
        if record.wrong and verdict == "wrong":
            known = np.isfinite(record.derivatives) | ~np.isfinite(gradient)
            where = ... if known.all() else known  # at a kink or jump there is no derivative to compare with
            differences = np.nan_to_num(record.differences[where])
            record.guess = likely_cause(gradient[where], differences, subject="the gradient")

    constants = [name for i, name in enumerate(case.names) if i not in case.moving]
    report = GradientReport(case.name, list(compared.values()), constants, detects, verdict, cause)
    if not report.passed:
        raise GradientError(report)
    return report


def _judge(claimed: Measurement, compared: Mapping[int, InputReport]) -> tuple[Word, str]:
    """Return the verdict, which is that of ``check`` where smooth pieces of the function meet, and its cause."""
    ties, cause = judge_ties(claimed, compared)
    if any(record.wrong and not record.excused for record in compared.values()):
        return "wrong", ""
    if ties == "wrong" or any(record.excused for record in compared.values()):
        return ties or "kink", cause
    hidden = next((record.why_hidden for record in compared.values() if record.turns), "")
    return ("undecided" if hidden else "right"), hidden
