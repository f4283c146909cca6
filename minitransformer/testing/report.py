"""What ``check`` and ``examine`` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from minitransformer.testing.gradcheck import InputReport

__all__ = ["CheckError", "Entry", "Report", "Verdict"]

Verdict = Literal["right", "wrong", "kink", "undecided", "nondeterministic", "mutates", "not finite", "malformed"]

HEADLINES: dict[Verdict, str] = {
    "right": "the gradient is right",
    "wrong": "the gradient is WRONG",
    "kink": "the function is not differentiable here",
    "undecided": "the gradient cannot be decided in this precision",
    "nondeterministic": "two calls with the same inputs differ",
    "mutates": "an argument was written to",
    "not finite": "a result is not finite",
    "malformed": "a result is not what it should be",
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
    errors: list[tuple[float, float]] = field(default_factory=list)
    """Steps h and the error ``|(L(x + h) - L(x - h)) / 2h - gradient|`` at the worst entry: of a right gradient it
    falls as h² until rounding takes over."""
    inputs: list[InputReport] = field(default_factory=list)
    subgradient: bool = False
    """Whether the gradient lies between the slopes on both sides, at each kink."""
    measured: str = ""
    """In which precision, if it is not that of the inputs."""
    constants: list[str] = field(default_factory=list)
    """Outputs without a gradient: whole numbers, and None."""

    def __str__(self) -> str:
        lines = [f"{self.name}: {HEADLINES[self.verdict]}"]
        lines += [f"  cause: {self.cause}"] if self.cause else []
        lines += [f"  {record}" for record in self.inputs]
        lines += [f"  outputs without a gradient: {', '.join(self.constants)}"] if self.constants else []
        return "\n".join(lines + ([f"  {self.measured}"] if self.measured else []))


class CheckError(AssertionError):
    """The verdict is not "right"; ``report`` holds what was found."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
