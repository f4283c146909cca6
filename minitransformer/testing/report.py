"""What ``check`` and ``examine`` found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from minitransformer.testing.input_report import InputReport, Power, power_of

__all__ = ["CheckError", "Entry", "Report", "Verdict"]

Verdict = Literal["right", "wrong", "kink", "undecided", "nondeterministic", "mutates", "not finite", "malformed"]

STAYS, LONG = 0.2, 4
"""An error that changes by less than this fraction over at least this many steps does not fall with the step."""

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
    """Outputs without a gradient: whole numbers, and None."""

    measure_errors: Callable[[], list[tuple[float, float]]] = field(default=list, repr=False, compare=False)

    @cached_property
    def errors(self) -> list[tuple[float, float]]:
        """Steps h and the error ``|(L(x + h) - L(x - h)) / 2h - gradient|`` at the worst entry, when first read.

        For a right gradient it falls as h² until rounding takes over.
        """
        return self.measure_errors()

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
        lines += [f"  outputs without a gradient: {', '.join(self.constants)}"] if self.constants else []
        return "\n".join(lines + ([f"  {self.measured}"] if self.measured else []))

    def _plateau(self) -> list[str]:
        """Return a line on the longest range of steps over which the error stays, which shows that the claim is off."""
        runs: list[list[tuple[float, float]]] = [[]]
        for h, error in self.errors:
            if not runs[-1] or abs(error - runs[-1][0][1]) > STAYS * runs[-1][0][1]:
                runs.append([])
            runs[-1].append((h, error))
        longest = max(runs, key=len)
        if len(longest) < LONG:
            return []
        (first, error), (last, _) = longest[0], longest[-1]
        return [
            f"  the error at the worst entry stays near {error:.2g} for all steps from {first:.0e} to {last:.0e}; "
            "that of a right gradient falls as the square of the step"
        ]


class CheckError(AssertionError):
    """The verdict is not "right"; ``report`` holds what was found."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
