"""The gradient checker: backward passes held against finite differences.

For a function y = f(x) and a random cotangent c of the shape of y, the number L(x) = Σ c y has a gradient that the
backward pass claims to know. The checker moves one entry of x at a time by ±h and looks at how L changes:

    D(h) = (L(x + h) - L(x - h)) / 2h  =  dL/dx + O(h²)

    R(h) = (4 D(h/2) - D(h)) / 3       =  dL/dx + O(h⁴)          (Richardson's extrapolation)

Two errors meet in R: truncation, which grows with h, and rounding, about ε Σ|c y| / h with ε the machine's precision,
which falls with h. |R(h) - D(h/2)| bounds the first, the formula the second; if their sum is too large for a verdict,
h is made smaller. The claim g and the measurement n agree if

    |g - n| / max(|g|, |n|, floor) <= tolerance          floor = (the error of n) / tolerance

so a small gradient is held to the same relative accuracy as a large one, down to what can be measured at all.
A constant cotangent would be blind: the rows of a softmax sum to one, whatever its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor

__all__ = ["GradientReport", "InputReport", "gradcheck", "relative_error"]

EPS = float(np.finfo(np.float64).eps)
STEP = EPS**0.2  # where the truncation error h⁴ of R meets the rounding error ε/h, for x about 1
SHRINK = (1.0, 1 / 16, 1 / 256, 1 / 4096)


@dataclass
class InputReport:
    """What was found about the gradient of one input."""

    name: str
    shape: tuple[int, ...]
    checked: int = 0
    """How many entries, or directions, were compared."""
    wrong: int = 0
    worst_error: float = 0.0
    """The largest relative error, where the measurement can tell."""
    worst_index: tuple[int, ...] | None = None
    """Where; None if directions were compared."""
    claimed: float = 0.0
    """The backward pass at the worst place."""
    measured: float = 0.0
    """The finite difference there."""
    kinks: list[tuple[int, ...]] = field(default_factory=list)
    """Entries where the function has a kink: there the claim must lie between the slopes on both sides."""
    guess: str = ""

    def __str__(self) -> str:
        what = "entries" if self.worst_index is not None else "directions"
        text = f"input {self.name}, shape {self.shape}: "
        if not self.wrong:
            return text + f"{self.checked} {what} agree, worst relative error {self.worst_error:.1e}"
        place = f" at {list(self.worst_index)}" if self.worst_index is not None else ""
        lines = [
            text + f"{self.wrong} of {self.checked} {what} wrong, the worst{place}",
            f"    backward            {self.claimed: .10g}",
            f"    finite differences  {self.measured: .10g}",
            f"    relative error      {self.worst_error: .2g}",
        ]
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


def relative_error(a: Any, b: Any, floor: Any = 0.0) -> Any:
    """Return |a - b| / max(|a|, |b|, floor), entry by entry; 0 where a and b are equal."""
    difference = np.abs(np.subtract(a, b))
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    return np.where(difference == 0, 0.0, difference / np.where(scale == 0, 1.0, scale))


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
        passed on as it is.
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
        If a gradient is wrong. The message shows the input, the index, both numbers, and a guess where it is clear.
    ValueError
        If the check itself is impossible: no input has a gradient, the function is not deterministic or not finite.
    """
    arrays = [_prepared(x) for x in inputs]
    labels = [str(name) for name in (names or range(len(arrays)))]
    checked = [i for i, x in enumerate(arrays) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    title = str(getattr(function, "name", None) or getattr(function, "__name__", "the function"))
    if not checked:
        raise ValueError(f"gradcheck of {title}: no input is a floating-point array, so there is no gradient to check")
    rng = np.random.default_rng(seed)

    def evaluate(*values: Any) -> Array:
        output = function(*[Tensor(asarray(v)) if i in checked else v for i, v in enumerate(values)], **options)
        return to_numpy(output.data if isinstance(output, Tensor) else output)

    def claim(cotangent: Array) -> tuple[Array, list[Array]]:
        tensors = [Tensor(asarray(x.copy()), requires_grad=True) if i in checked else x for i, x in enumerate(arrays)]
        output = function(*tensors, **options)
        if not isinstance(output, Tensor) or not output.requires_grad:
            raise ValueError(
                f"gradcheck of {title}: the output has no graph behind it; the function must return a Tensor "
                "made from its inputs by operations on tensors"
            )
        output.backward(asarray(cotangent))
        for i in checked:
            if not np.array_equal(to_numpy(tensors[i].data), arrays[i], equal_nan=True):
                raise AssertionError(f"gradcheck of {title}: the function wrote into its input {labels[i]}")
        gradients = [tensors[i].grad for i in checked]
        zeros = [np.zeros_like(arrays[i]) for i in checked]
        return output.numpy(), [z if g is None else to_numpy(g) for g, z in zip(gradients, zeros, strict=True)]

    value = evaluate(*arrays)
    if not np.isfinite(value).all():
        raise ValueError(f"gradcheck of {title}: the value is not finite, so nothing can be measured")
    if not np.array_equal(value, evaluate(*arrays)):
        raise ValueError(
            f"gradcheck of {title}: two calls with the same input gave two values; "
            "seed the randomness inside the function"
        )
    if d_output is None:
        d_output = rng.uniform(0.5, 2.0, value.shape) * rng.choice((-1.0, 1.0), value.shape)
    cotangent = np.asarray(d_output, dtype=np.float64)
    _, gradients = claim(cotangent)

    def loss(i: int, moved: Array) -> tuple[float, float]:
        terms = cotangent * evaluate(*[moved if j == i else x for j, x in enumerate(arrays)])
        return float(terms.sum(dtype=np.longdouble)), float(np.abs(terms).sum())

    reports = []
    for i, gradient in zip(checked, gradients, strict=True):
        x = arrays[i]
        report = InputReport(labels[i], x.shape)
        typical = float(np.median(np.abs(x))) if x.size else 0.0
        few = x.size <= max_entries
        chosen = range(x.size) if few else sorted(rng.choice(x.size, max_entries, replace=False))
        measured = np.full(x.size, np.nan)
        for flat in chosen:
            index = tuple(int(n) for n in np.unravel_index(flat, x.shape))
            direction = np.zeros_like(x)
            direction[index] = 1.0
            step = STEP * (max(abs(float(x[index])), typical) or 1.0)
            result = _slope(lambda t, i=i, x=x, d=direction: loss(i, x + t * d), step, tolerance)  # type: ignore[misc]
            measured[flat] = result.slope
            _compare(report, float(gradient[index]), result, tolerance, index)
        if not few:
            for _ in range(n_directions):
                direction = rng.standard_normal(x.shape)
                step = STEP * (typical or 1.0)
                result = _slope(lambda t, i=i, x=x, d=direction: loss(i, x + t * d), step, tolerance)  # type: ignore[misc]
                _compare(report, float((gradient * direction).sum()), result, tolerance, None)
        if report.wrong:
            report.guess = guess(gradient, measured.reshape(x.shape))
        reports.append(report)

    report_of_all = GradientReport(title, reports, [labels[i] for i in range(len(arrays)) if i not in checked])
    if not report_of_all.passed:
        raise AssertionError(str(report_of_all))
    return report_of_all


def _prepared(x: Any) -> Any:
    """Return floating-point arrays (and lists of numbers) as float64 copies; leave everything else alone."""
    if isinstance(x, Tensor):
        x = x.numpy()
    if isinstance(x, list):
        x = np.asarray(x)
    if hasattr(x, "dtype") and x.dtype.kind == "f":
        return np.array(to_numpy(x), dtype=np.float64)
    return x


@dataclass
class _Slope:
    slope: float
    error: float
    """What truncation and rounding may have done to the slope."""
    sides: tuple[float, float] | None = None
    """The slopes to the left and right, if there is a kink."""


def _slope(loss: Callable[[float], tuple[float, float]], step: float, tolerance: float) -> _Slope:
    """Measure the derivative of a function of one number at 0, with the step that suits it."""
    best: _Slope | None = None
    middle, _ = loss(0.0)
    jump_before = np.inf
    for shrink in SHRINK:
        h = step * shrink
        (high, size), (low, _), (high2, _), (low2, _) = (loss(t) for t in (h, -h, h / 2, -h / 2))
        coarse, fine = (high - low) / (2 * h), (high2 - low2) / h
        richardson = (4 * fine - coarse) / 3
        rounding = 8 * EPS * size / h
        found = _Slope(richardson, abs(richardson - fine) + rounding)
        # At a kink the slopes on both sides differ by as much however small the step; elsewhere by O(h).
        left, right = (middle - low2) / (h / 2), (high2 - middle) / (h / 2)
        jump = abs(right - left)
        if best is not None and jump > 0.8 * jump_before and jump > 64 * rounding + 1e-3 * abs(fine):
            best.sides = (min(left, right), max(left, right))
            return best
        jump_before = jump
        if best is None or found.error < best.error:
            best = found
        # A verdict needs an error well below the slope, or below all that rounding leaves to be seen.
        if best.error <= max(tolerance * abs(best.slope), 2 * rounding) and jump <= 64 * rounding + 0.05 * abs(fine):
            break
    assert best is not None
    return best


def _compare(
    report: InputReport, claimed: float, result: _Slope, tolerance: float, index: tuple[int, ...] | None
) -> None:
    """Enter one comparison into the report."""
    report.checked += 1
    if result.sides is not None:
        left, right = result.sides
        margin = result.error + tolerance * max(abs(left), abs(right))
        if index is not None:
            report.kinks.append(index)
        if left - margin <= claimed <= right + margin:
            return
        error = 1.0
    else:
        error = float(relative_error(claimed, result.slope, result.error / tolerance))
    if not np.isfinite(claimed):
        error = np.inf
    bad = error > tolerance
    report.wrong += bad
    if error >= report.worst_error or report.worst_index is None:
        report.worst_error, report.worst_index = error, index
        report.claimed, report.measured = claimed, result.slope


def guess(claimed: Array, measured: Array) -> str:
    """Name the likely mistake, where the pattern is clear; else return an empty string."""
    known = ~np.isnan(measured)
    a, n = claimed[known], measured[known]
    if not np.isfinite(a).all():
        return "the gradient is not finite"
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
        if abs(factor + 1) < 1e-4:
            return "the sign is wrong"
        return f"every entry is {factor:.6g} times what it should be: a factor is missing, or there is one too many"
    if claimed.ndim and known.all():
        difference = claimed - measured
        for axis in range(claimed.ndim):
            if claimed.shape[axis] > 1 and np.allclose(difference, difference.mean(axis=axis, keepdims=True), **close):
                return f"every entry along axis {axis} is off by the same amount: a sum over that axis is missing"
    return ""
