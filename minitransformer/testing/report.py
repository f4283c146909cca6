"""What a check found, what it could have found, and the verdicts that end one early."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from minitransformer.arrays import Array, is_whole
from minitransformer.testing.steps import Slope

Verdict = Literal["right", "wrong", "kink", "undecided", "nondeterministic", "mutates", "not finite", "malformed"]

STAYS, LONG = 0.2, 4
"""Errors that differ by at most this fraction, at this many steps or more, do not fall with the step."""

HEADLINES: dict[Verdict, str] = {
    "right": "the gradient is right",
    "wrong": "the gradient is WRONG",
    "kink": "the function is not differentiable here",
    "undecided": "the gradient cannot be decided in this precision",
    "nondeterministic": "two calls with the same inputs differ",
    "mutates": "an argument was written to",
    "not finite": "a result is not finite",
    "malformed": "a result is not as expected",
}


class Stop(Exception):
    """A verdict that ends a check before any gradient is compared, or while one is."""

    def __init__(self, verdict: Verdict, cause: str, blames_backward: bool = False) -> None:
        super().__init__(cause)
        self.verdict: Verdict = verdict
        self.blames_backward = blames_backward or verdict == "mutates"

    def as_error(self, name: str, title: str) -> Exception:
        """Return what ``gradcheck`` raises: an AssertionError if a gradient is wrong, otherwise a ValueError."""
        if self.blames_backward:
            return CheckError(Report(name, self.verdict, str(self)))
        return ValueError(f"{title}: {HEADLINES[self.verdict]}: {self}")


class Malformed(Stop):
    """A function or its backward pass returned something that cannot be a value or gradients."""

    def __init__(self, cause: str) -> None:
        super().__init__("malformed", cause)


class Refuses(Stop):
    """A function raises an error for inputs that have moved, so nothing can be measured."""

    def __init__(self, error: Exception) -> None:
        cause = (
            f"the function raises an error at inputs that have moved a little ({type(error).__name__}: {error}); check "
            "a function that accepts all inputs nearby, such as one that normalises them itself"
        )
        super().__init__("undecided", cause)


@dataclass(frozen=True)
class Power:
    """The smallest errors of a backward pass that a check would have found, with this function and these inputs."""

    one: float
    """In a single entry, whichever it is, relative to the largest entry of its gradient; infinite if an entry was
    neither moved alone nor in a direction."""
    together: float
    """In all entries of a gradient at once, relative to each."""

    def __str__(self) -> str:
        one = (
            "any error of one entry is missed" if np.isinf(self.one) else f"{self.one:.1e} of the largest in one entry"
        )
        return f"smallest error it would find: {one}, {self.together:.1e} in all together"


def at(index: tuple[int, ...]) -> str:
    """Return where an entry is, for a message; nothing for a single number, which has no index."""
    return f" at {list(index)}" if index else ""


def power_of(inputs: Iterable[InputReport]) -> Power | None:
    """Return the power of a check, that for the gradient in which an error is found last; None if all are zero."""
    powers = [record.power for record in inputs]
    known = [power for power in powers if power is not None]
    return Power(max(p.one for p in known), max(p.together for p in known)) if known else None


def require_sensible(title: str, max_entries: int, n_directions: int, detects: float | None) -> None:
    """Raise a ValueError unless a check compares something, and ``detects`` is an error that it may have to find."""
    counts = max_entries, n_directions
    if not all(is_whole(n) and n >= 0 for n in counts) or not any(counts):
        raise ValueError(
            f"{title}: max_entries is {max_entries!r} and n_directions {n_directions!r}; expected whole numbers of 0 "
            "or more, and not both 0"
        )
    if detects is not None and not detects > 0:
        raise ValueError(f"{title}: detects is {detects!r}; expected a relative error above 0, such as 1e-3")


def shortfall(power: Power | None, detects: float | None) -> str:
    """Return why a check does not find errors as small as ``detects``; empty if it does, or need not."""
    if detects is None or (power is not None and max(power.one, power.together) <= detects):
        return ""
    missed = "the gradient is zero, so no error is relative to it" if power is None else str(power)
    return (
        f"detects={detects:g} asks for a smaller error than this check can find ({missed}); give inputs at which the "
        "function changes more, or move more entries"
    )


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
    wrong_entries: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)
    """The wrong ones that were entries, with the lower and the higher slope along them."""
    excused: bool = False
    """Whether the wrong ones may be right, since the slopes along single entries do not bound the gradient."""
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
    differences: Array = field(default_factory=lambda: np.empty(0))
    """The finite differences, in the shape of the input; NaN where none was taken."""
    largest: float = 0.0
    """The largest gradient among the comparisons, claimed or measured."""
    resolution: float = 0.0
    """The largest error bound of a measurement; infinite if one was not finite."""

    certain: float = 0.0
    """The error from which on a single wrong entry is found in a direction, if entries were not all moved alone."""
    turns: bool = False
    """Whether the function may turn between two numbers beside an input, so that no step measures it."""
    small: dict[tuple[int, ...], float] = field(default_factory=dict)
    """Entries that were moved by their own size, because a typical step is too long for them, with that size."""
    size: float = 0.0
    """The largest entry of the claimed gradient."""
    n_entries: int = 0
    """How many entries can be moved."""
    one: float = 0.0
    """The largest error of an entry that moved alone which would not have been found."""
    together: float = np.inf
    """The smallest relative error of all entries that would have been found."""

    def enter(
        self, claim: float, slope: Slope, tolerance: float, index: tuple[int, ...] | None, unseen: float = np.inf
    ) -> None:
        """Record one comparison, of an entry or of a direction, and the error of a claim that it would not see."""
        known = not np.isnan(slope.value)
        self.resolution = max(self.resolution, slope.error if known else np.inf)
        self.turns |= known and bool(np.isinf(slope.error))
        self.largest = max(self.largest, *(abs(x) for x in (claim, slope.value) if np.isfinite(x)), 0.0)
        self.one = max(self.one, unseen) if index is not None else self.one
        self.together = min(self.together, unseen / abs(claim)) if claim else self.together
        error = slope.disagreement(claim, tolerance)
        # of equal errors up to rounding the first, on every processor
        if error > self.worst_error * (1 + 1e-6) or not self.comparisons:
            self.worst_error, self.worst_index, self.sides = error, index, slope.sides
            self.claim, self.measurement = claim, slope.value
        self.comparisons += 1
        self.directions += index is None
        self.wrong += error > tolerance
        if error > tolerance and index is not None:
            self.wrong_entries[index] = slope.sides or (slope.value, slope.value)
        if slope.sides is not None and index is not None:
            self.kinks.append(index)

    def allow(self, relative: float) -> None:
        """Count an error as found only above a relative size: smaller ones are allowed, as rounding may cause them."""
        self.one, self.together = max(self.one, relative * self.size), max(self.together, relative)
        self.certain = self.certain and max(self.certain, relative * self.size)

    @property
    def derivatives(self) -> Array:
        """The finite differences, without those at kinks, where a function has no derivative."""
        found = self.differences.copy()
        for index in self.kinks:
            found[index] = np.nan
        return found

    @property
    def why_hidden(self) -> str:
        """Why nothing is decided where the function ``turns`` too fast."""
        return (
            f"the function may turn between two neighbouring numbers of {self.name}, where no step measures its slope; "
            "give inputs of a smaller size"
        )

    @property
    def power(self) -> Power | None:
        """The smallest errors that would have been found; None if the gradient is zero."""
        if not self.size or not self.comparisons:
            return None
        all_moved = self.comparisons - self.directions >= self.n_entries
        one = self.one if all_moved else self.certain or np.inf
        return Power(one / self.size, self.together)

    def __str__(self) -> str:
        text = f"input {self.name}, shape {self.shape}: "
        entries = self.comparisons - self.directions
        counts = (entries, "entry", "entries"), (self.directions, "direction", "directions")
        what = " and ".join(f"{n} {one if n == 1 else several}" for n, one, several in counts if n) or "0 entries"
        kinks = f", kinks at {', '.join(str(list(index)) for index in self.kinks[:5])}" if self.kinks else ""
        kinks = ", at a kink" if self.kinks == [()] else kinks
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
        place = " in a random direction" if self.worst_index is None else at(self.worst_index)
        what = f"{self.comparisons} comparisons ({what})" if entries and self.directions else what
        wrong = ("differs" if self.comparisons == 1 else "differ") if self.excused else "wrong"
        lines = [
            f"{text}{self.wrong} of {what} {wrong}{place and ', the worst'}{place}{kinks}",
            f"    backward            {self.claim: .10g}",
            f"    finite differences  {self.measurement: .10g}",
            f"    relative error      {self._relative_error(): .2g}",
        ]
        if self.sides is not None:
            lines[2] = f"    finite differences  {self.sides[0]: .10g} on one side, {self.sides[1]: .10g} on the other"
        return "\n".join(lines)

    def _relative_error(self) -> float:
        """Return the relative error at the worst place, whatever the error of the measurement is."""
        return Slope(self.measurement, 0.0, self.sides).disagreement(self.claim, 1.0)


@dataclass(frozen=True)
class Entry:
    """One entry of a gradient; ``index`` is None for a direction, in which all entries move."""

    input: str
    index: tuple[int, ...] | None
    found: float
    expected: float


@dataclass
class Report:
    """A verdict and what it rests on; printed, it is readable."""

    name: str
    verdict: Verdict
    cause: str = ""
    worst: Entry | None = None
    """The entry that differs most from finite differences."""
    inputs: list[InputReport] = field(default_factory=list)
    subgradient: bool = False
    """Whether the gradient lies between the slopes on both sides, at each kink."""
    order: int = 1
    """2 if the report is on the backward pass, as a function that has a backward pass itself."""
    measured: str = ""
    """In which precision, if it is not that of the inputs."""
    constants: list[str] = field(default_factory=list)
    """What has no gradient, such as whole numbers: outputs of ``check``, inputs of ``gradcheck``."""

    measure_errors: Callable[[], list[tuple[float, float]]] = field(default=list, repr=False, compare=False)

    @cached_property
    def errors(self) -> list[tuple[float, float]]:
        """Steps h and the error ``|(L(x + h) - L(x - h)) / 2h - gradient|`` at the worst entry, when first read.

        For a right gradient it falls as h² until rounding takes over. Empty at a kink, where no error falls.
        """
        return self.measure_errors()

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the measured errors instead of the function that measures them."""
        return {**vars(self), "errors": self.errors, "measure_errors": list}

    @property
    def passed(self) -> bool:
        """Whether every gradient is right, and a wrong one would have been found."""
        return self.verdict == "right"

    @property
    def turns(self) -> bool:
        """Whether the function may turn between two numbers beside an input, so that no step measures it."""
        return any(record.turns for record in self.inputs)

    @property
    def worst_error(self) -> float:
        """The largest relative error of all inputs."""
        return max((record.worst_error for record in self.inputs), default=0.0)

    def demand(self, detects: float | None) -> None:
        """Change a verdict to "undecided" if an error as small as ``detects`` might have passed."""
        lacking = shortfall(self.power, detects) if self.passed or self.subgradient else ""
        if lacking:
            self.verdict, self.cause = "undecided", lacking

    @property
    def power(self) -> Power | None:
        """The smallest errors that would have been found; None if something else was, or the gradient is zero."""
        known = self.verdict in ("right", "undecided") or self.subgradient
        return power_of(self.inputs) if known and not any(record.wrong for record in self.inputs) else None

    def __str__(self) -> str:
        order = f" (order {self.order})" if self.order > 1 else ""
        lines = [f"{self.name}{order}: {HEADLINES[self.verdict]}"]
        lines += [f"  cause: {self.cause}"] if self.cause else []
        lines += [f"  {record}" for record in self.inputs]
        lines += self._plateau() if self.verdict == "wrong" else []
        lines += [f"  {self.power}"] if self.power else []
        lines += [f"  without a gradient: {', '.join(self.constants)}"] if self.constants else []
        return "\n".join(lines + ([f"  {self.measured}"] if self.measured else []))

    def _plateau(self) -> list[str]:
        """Return a line on the steps at which the error at the worst entry is the same: it shows that the claim is off.

        The error is the one with which those of most other steps agree.
        """
        most: list[tuple[float, float]] = []
        middle, off = 0.0, 0.0
        for _, error in self.errors:
            near = [(h, e) for h, e in self.errors if abs(e - error) <= STAYS * error]
            spread = sum(abs(e - error) for _, e in near)
            if error and (len(near), off) > (len(most), spread):
                most, middle, off = near, error, spread
        if len(most) < LONG:
            return []
        n = f"all {len(most)}" if len(most) == len(self.errors) else f"{len(most)} of {len(self.errors)}"
        return [
            f"  the error at the worst entry stays near {middle:.2g} (within {STAYS:.0%}) at {n} steps, "
            f"h = {most[0][0]:.0e} to {most[-1][0]:.0e}; that of a right gradient falls as the square of the step"
        ]


class CheckError(AssertionError):
    """The verdict is not "right"; ``report`` holds what was found."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
