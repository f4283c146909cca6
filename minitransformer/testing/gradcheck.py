"""The gradient checker: backward passes held against finite differences.

For a function y = f(x) and a random cotangent c of the shape of y, the number L(x) = Σ c y has a gradient that the
backward pass claims to know. The checker moves one entry of x at a time and measures how fast L changes (see
``slopes``). The claim g and the measurement n agree if

    |g - n| / max(|g|, |n|, floor) <= tolerance          floor = (the error of n) / tolerance

so a small gradient is held to the same relative accuracy as a large one, down to what can be measured at all.
A constant cotangent would be blind: the rows of a softmax sum to one, whatever its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.testing.slopes import STEP, Slope, measure, relative_error

__all__ = ["GradientError", "GradientReport", "InputReport", "gradcheck", "relative_error"]


@dataclass
class InputReport:
    """What was found about the gradient of one input."""

    name: str
    shape: tuple[int, ...]
    checked: int = 0
    """How many entries and directions were compared."""
    directions: int = 0
    """How many of these were directions, in which all entries move at once."""
    wrong: int = 0
    worst_error: float = 0.0
    """The largest relative error, where the measurement can tell."""
    worst_index: tuple[int, ...] | None = None
    """Where; None if it was in a direction."""
    claimed: float = 0.0
    """The backward pass at the worst place."""
    measured: float = 0.0
    """The finite difference there."""
    sides: tuple[float, float] | None = None
    """The slopes on both sides, if there is a kink at the worst place."""
    kinks: list[tuple[int, ...]] = field(default_factory=list)
    """Entries where the function has a kink: there the claim must lie between the slopes on both sides."""
    guess: str = ""
    differences: Array = field(default_factory=lambda: np.empty(0))
    """The finite differences, in the shape of the input; NaN where none was taken."""

    def enter(self, claimed: float, slope: Slope, tolerance: float, index: tuple[int, ...] | None) -> None:
        """Enter one comparison: of the entry at an index, or of a direction."""
        error = slope.disagreement(claimed, tolerance)
        if error > self.worst_error or not self.checked:
            self.worst_error, self.worst_index, self.sides = error, index, slope.sides
            self.claimed, self.measured = claimed, slope.value
        self.checked += 1
        self.directions += index is None
        self.wrong += error > tolerance
        if slope.sides is not None and index is not None:
            self.kinks.append(index)

    def __str__(self) -> str:
        text = f"input {self.name}, shape {self.shape}: "
        what = " and ".join(
            f"{n} {word}"
            for n, word in ((self.checked - self.directions, "entries"), (self.directions, "directions"))
            if n or word == "entries"
        )
        kinks = f", kinks at {', '.join(str(list(index)) for index in self.kinks[:5])}" if self.kinks else ""
        kinks += f" and {len(self.kinks) - 5} more" if len(self.kinks) > 5 else ""
        if not self.wrong:
            return text + f"{what} agree, worst relative error {self.worst_error:.1e}{kinks}"
        place = f"at {list(self.worst_index)}" if self.worst_index is not None else "in a random direction"
        lines = [
            text + f"{self.wrong} of {what} wrong, the worst {place}{kinks}",
            f"    backward            {self.claimed: .10g}",
            f"    finite differences  {self.measured: .10g}",
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
    **options: Any,
) -> GradientReport:
    """Hold a function's backward pass against finite differences.

    Parameters
    ----------
    function : callable
        A function of tensors that returns a tensor; an ``Operation`` is one. It must return the same for the same
        input, so a random one (dropout) has to seed its generator on each call.
    inputs : sequence of array or other
        What the function is called with. Floating-point arrays are inputs to be checked, in float64; everything else is
        passed on as it is. An entry that is infinite cannot be moved, so nothing is measured there.
    names : sequence of str, optional
        The inputs' names, for the report; numbers by default.
    d_output : array, optional
        The cotangent; random and non-uniform by default.
    tolerance : float
        The relative error that is allowed beyond what the measurement itself explains.
    max_entries : int
        Inputs with at most this many entries are checked entry by entry; of larger ones as many random entries, and
        also random directions, in which every entry takes part.
    n_directions : int
        How many directions.
    seed : int
        Seeds the cotangent, the choice of entries and the directions.
    **options
        Passed on to the function.

    Returns
    -------
    GradientReport
        What was compared and how well it agrees.

    Raises
    ------
    AssertionError
        If a gradient is wrong, or the function wrote into its input. The message shows the input, the index, both
        numbers, and a guess where it is clear. A wrong gradient's error is a ``GradientError`` and has the report.
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If the check itself is impossible: no input has a gradient, the function is not deterministic or not finite.
    """
    case = _Case(function, inputs, names, options)
    rng = np.random.default_rng(seed)
    value = case.checked_value()
    if d_output is None:
        d_output = rng.uniform(0.5, 2.0, value.shape) * rng.choice((-1.0, 1.0), value.shape)
    case.cotangent = np.asarray(to_numpy(d_output), dtype=np.float64)
    gradients = case.gradients(value)

    reports = []
    for i, gradient in zip(case.moving, gradients, strict=True):
        x = case.inputs[i]
        report = InputReport(case.names[i], x.shape)
        movable = np.flatnonzero(np.isfinite(x))
        typical = float(np.median(np.abs(x.flat[movable]))) if movable.size else 0.0
        measured = np.full(x.shape, np.nan)
        few = movable.size <= max_entries
        for flat in movable if few else sorted(rng.choice(movable, max_entries, replace=False)):
            index = tuple(int(n) for n in np.unravel_index(flat, x.shape))
            direction = np.zeros_like(x)
            direction[index] = 1.0
            step = STEP * (max(abs(float(x[index])), typical) or 1.0)
            slope = measure(case.loss(i, direction), step, float(gradient[index]), tolerance)
            measured[index] = slope.value
            report.enter(float(gradient[index]), slope, tolerance, index)
        for _ in range(0 if few else n_directions):
            direction = np.round(16 * rng.standard_normal(x.shape)) / 16 * np.isfinite(x)  # moves without rounding
            along = float((gradient * direction).sum())
            slope = measure(case.loss(i, direction), STEP * (typical or 1.0), along, tolerance)
            report.enter(along, slope, tolerance, None)
        if report.wrong:
            report.guess = guess(gradient, measured)
        report.differences = measured
        reports.append(report)

    constants = [name for i, name in enumerate(case.names) if i not in case.moving]
    report_of_all = GradientReport(case.title, reports, constants)
    if not report_of_all.passed:
        raise GradientError(report_of_all)
    return report_of_all


class _Case:
    """A function with the inputs that it is checked at."""

    def __init__(
        self, function: Callable[..., Tensor], inputs: Sequence[Any], names: Sequence[str] | None, options: Any
    ) -> None:
        self.function, self.options = function, options
        self.title = str(getattr(function, "name", None) or getattr(function, "__name__", "the function"))
        if hasattr(inputs, "dtype"):
            raise TypeError(f"gradcheck of {self.title}: the inputs are one array; write (x,) for a single input")
        self.inputs = [_prepared(x) for x in inputs]
        self.names = [str(name) for name in (range(len(self.inputs)) if names is None else names)]
        if len(self.names) != len(self.inputs):
            raise ValueError(
                f"gradcheck of {self.title}: {len(self.names)} names for {len(self.inputs)} inputs; "
                "give one for each, also for those without a gradient"
            )
        self.moving = [i for i, x in enumerate(self.inputs) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
        """The places of the inputs that have a gradient."""
        if not self.moving:
            raise ValueError(
                f"gradcheck of {self.title}: no input is a floating-point array, so there is no gradient to check"
            )
        self.cotangent: Array = np.ones(())

    def call(self, inputs: Sequence[Any], requires_grad: bool = False) -> tuple[Any, list[Any]]:
        """Return what the function makes of some inputs, and the tensors that it was given."""
        given = [Tensor(asarray(x), requires_grad) if i in self.moving else x for i, x in enumerate(inputs)]
        return self.function(*given, **self.options), given

    def call_guarded(self, requires_grad: bool = False) -> tuple[Any, list[Any]]:
        """Call the function with copies of the inputs, and see that it leaves them as they are."""
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in self.inputs]
        output, given = self.call(copies, requires_grad)
        self.see_untouched(given, "the function")
        return output, given

    def see_untouched(self, given: Sequence[Any], who: str) -> None:
        """See that what was given is still what the inputs are."""
        for name, x, copy in zip(self.names, self.inputs, self._values(given), strict=True):
            if isinstance(x, np.ndarray) and not np.array_equal(copy, x, equal_nan=x.dtype.kind == "f"):
                raise AssertionError(f"gradcheck of {self.title}: {who} wrote into its input {name}")

    @staticmethod
    def _values(given: Sequence[Any]) -> Iterator[Any]:
        return (x.numpy() if isinstance(x, Tensor) else x for x in given)

    def checked_value(self) -> Array:
        """Return the function's value, after seeing that it is finite and comes out the same again."""
        value = _numbers(self.call_guarded()[0])
        if not np.isfinite(value).all():
            raise ValueError(f"gradcheck of {self.title}: the value is not finite, so nothing can be measured")
        self.compare(value, _numbers(self.call(self.inputs)[0]))
        return value

    def compare(self, value: Array, again: Array) -> None:
        """Refuse a function that makes two values of one input."""
        # Where memory lies may change the order in which sums are rounded, so the same bits are not asked for.
        scale = float(np.abs(value).max(initial=0.0))
        if value.shape != again.shape or not np.allclose(value, again, rtol=1e-10, atol=1e-10 * scale):
            raise ValueError(
                f"gradcheck of {self.title}: two calls with the same input gave two values; "
                "seed the randomness inside the function"
            )

    def gradients(self, value: Array) -> list[Array]:
        """Return what the backward pass claims, for each input that has a gradient."""
        output, given = self.call_guarded(requires_grad=True)
        if not isinstance(output, Tensor) or not output.requires_grad:
            raise ValueError(
                f"gradcheck of {self.title}: the output has no graph behind it; the function must return a Tensor "
                "made from its inputs by operations on tensors"
            )
        self.compare(value, output.numpy())
        output.backward(asarray(self.cotangent))
        self.see_untouched(given, "the backward pass")
        found = [given[i].grad for i in self.moving]
        gradients = [
            np.zeros_like(self.inputs[i]) if g is None else to_numpy(g) for i, g in zip(self.moving, found, strict=True)
        ]
        for i, gradient in zip(self.moving, gradients, strict=True):
            # The core sees to this too, but the core may be what is tested.
            if gradient.shape != self.inputs[i].shape:
                raise AssertionError(
                    f"gradcheck of {self.title}: the gradient of input {self.names[i]} has shape {gradient.shape}, "
                    f"but the input has shape {self.inputs[i].shape}"
                )
        return gradients

    def loss(self, i: int, direction: Array) -> Callable[[float], tuple[float, float]]:
        """Return L as a function of how far input i has moved in a direction, and the size of the terms of L."""

        def moved(t: float) -> tuple[float, float]:
            inputs = [x + t * direction if j == i else x for j, x in enumerate(self.inputs)]
            with np.errstate(all="ignore"):  # a step may lead out of the domain; a shorter one will not
                terms = self.cotangent * _numbers(self.call(inputs)[0])
            return float(terms.sum(dtype=np.longdouble)), float(np.abs(terms).sum())

        return moved


def _numbers(output: Any) -> Array:
    return to_numpy(output.data if isinstance(output, Tensor) else output)


def _prepared(x: Any) -> Any:
    """Return floating-point arrays (and lists of numbers) as float64 copies; leave everything else alone."""
    if isinstance(x, Tensor):
        x = x.numpy()
    if isinstance(x, list):
        x = np.asarray(x)
    if hasattr(x, "dtype") and x.dtype.kind == "f":
        return np.array(to_numpy(x), dtype=np.float64)
    return x


def guess(claimed: Array, measured: Array) -> str:
    """Name the likely mistake, where the pattern is clear; else return an empty string.

    Parameters
    ----------
    claimed : array
        The gradient of the backward pass.
    measured : array, the shape of claimed
        The finite differences; NaN where none was taken.

    Returns
    -------
    str
    """
    known = ~np.isnan(measured)
    a, n = claimed[known], measured[known]
    if not np.isfinite(a).all():
        return "the gradient is not finite"
    if not np.isfinite(n).all():
        return ""  # where the function jumps there is nothing to compare with
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-7 * float(np.abs(n).max(initial=0.0))}
    if not a.any():
        return "the gradient is zero everywhere: is the input used, and its gradient returned?"
    if claimed.ndim >= 2 and known.all():
        axes = claimed.swapaxes(-1, -2)
        if axes.shape == measured.shape and np.allclose(axes, measured, **close):
            return "the gradient is transposed"
    big = np.abs(n) > 1e-6 * np.abs(n).max(initial=0.0)
    ratios = a[big] / n[big]
    if ratios.size > 1 and np.allclose(ratios, ratios[0], rtol=1e-4) and np.allclose(a, ratios[0] * n, **close):
        factor = float(ratios[0])
        if abs(factor - 1) < 2e-4:
            return ""  # a slight error in some entries is not a factor
        if abs(factor + 1) < 1e-4:
            return "the sign is wrong"
        return f"every entry is {factor:.6g} times what it should be: a factor is missing, or there is one too many"
    if claimed.ndim and known.all():
        difference = claimed - measured
        for axis in range(claimed.ndim):
            if claimed.shape[axis] > 1 and np.allclose(difference, difference.mean(axis=axis, keepdims=True), **close):
                return f"every entry along axis {axis} is off by the same amount: a sum over that axis is missing"
    return ""
