"""What ``check`` and ``examine`` found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from minitransformer.testing.input_report import InputReport, Power, power_of, shortfall

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
