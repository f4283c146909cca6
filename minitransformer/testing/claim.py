"""The gradient that a backward pass claims, with guarded calls of the function and of the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters import Malformed, Plain, Tensors
from minitransformer.testing.case import Case, draw_cotangent, fresh, nearly_same, same_bits
from minitransformer.testing.dtypes import precision_of
from minitransformer.testing.hidden import captured_arrays, changed_names, where_not_finite
from minitransformer.testing.report import Verdict
from minitransformer.testing.slopes import Slope, first_step, measure

__all__ = ["Claim", "Stop"]

ROUNDINGS = 16.0
"""The error of a backward pass may be this many times the change by one rounding of its arguments."""
TRIES = 3
SAME = 64.0
"""Two calls may differ by this many roundings: sums depend on the memory layout."""


class Stop(Exception):
    """A verdict that ends the examination."""

    def __init__(self, verdict: Verdict, cause: str) -> None:
        super().__init__(cause)
        self.verdict: Verdict = verdict
        self.cause = cause


class Claim:
    """The gradients of L = Σ d_output y that a backward pass claims, in float64 on the host.

    Parameters
    ----------
    case : Case
        The function and its inputs.
    rng : numpy.random.Generator
        Draws ``d_output`` and what is measured.
    d_output : array, optional
        The gradient of the output; drawn by default.

    Raises
    ------
    Stop, Malformed
        If the function or its backward pass is not deterministic, not finite, writes into an argument, or returns
        something else than arrays of floating-point numbers of the right shape.
    """

    def __init__(self, case: Case, rng: np.random.Generator, d_output: Any = None) -> None:
        self.case, self.rng = case, rng
        value = self._call()
        precision = precision_of(self._value, value)
        if d_output is None:
            d_output = draw_cotangent(rng, value.shape)
        self.d_output = precision.round(case.adapter.to_numpy(d_output))
        if self.d_output.shape != value.shape:
            raise ValueError(
                f"{case.title}: d_output has shape {self.d_output.shape}, but the value has shape {value.shape}; "
                "give one number for each entry of the value"
            )
        self.precision = max(precision, *map(case.precision, case.moving), key=lambda p: p.eps)
        """The coarsest type in which the function works."""
        self.eps = self.precision.eps
        self.tolerance = max(1e-7, self.eps**0.5)
        """The relative error of a gradient that is not yet wrong."""
        self._require_same(value, self._call())
        self.middle = float((self.d_output.astype(np.float64) * value).sum(dtype=np.longdouble))
        self.none: set[int] = set()
        """The inputs for which the backward pass returned None."""
        self.gradients = self._pull_back(self.d_output)
        self._require_same_gradients(self._pull_back(self.d_output))
        self._noise: dict[int, Array] | None = None

    def slope(self, i: int, direction: Array, length: float) -> Slope:
        """Measure how L changes along a direction in one input, which is smooth over about this length."""
        gradient = self.gradients[i]
        known = gradient.shape == direction.shape
        along = float((gradient * direction).sum()) if known else float("nan")
        loss = self.case.loss(i, direction, self.d_output.astype(np.float64), self.middle, self.eps)
        slope = measure(loss, self.middle, first_step(self.eps) * length, along, self.tolerance, eps=self.eps)
        if known and slope.sides is None and slope.disagreement(along, self.tolerance) > self.tolerance:
            noise = float((self.noise(i) * np.abs(direction)).sum())
            slope = slope._replace(error=slope.error + ROUNDINGS * noise)
        return slope

    def noise(self, i: int) -> Array:
        """Return how much one rounding of the inputs changes the gradient of an input, entry by entry."""
        if self._noise is None:
            self._noise = {j: np.zeros(g.shape) for j, g in self.gradients.items()}
            for _ in range(TRIES):
                nearby = [self._nudge(j) if j in self.case.moving else x for j, x in enumerate(self.case.inputs)]
                with np.errstate(all="ignore"):
                    found = self._gradients(nearby, self.d_output)
                for j, g in self.gradients.items():
                    if found[j].shape == g.shape and np.isfinite(found[j]).all():
                        self._noise[j] = np.maximum(self._noise[j], np.abs(found[j] - g))
        return self._noise[i]

    def ignores_d_output(self) -> bool:
        """Return whether another gradient of the output leaves the gradients of the inputs as they are."""
        d_output = precision_of(self._value, self.d_output).round(draw_cotangent(self.rng, self.d_output.shape))
        with np.errstate(all="ignore"):
            other = self._gradients(self.case.inputs, d_output)
        used = [i for i, g in self.gradients.items() if g.any()]
        return bool(used) and all(np.array_equal(other[i], self.gradients[i]) for i in used)

    def _nudge(self, i: int) -> Array:
        x = self.case.inputs[i]
        return self.case.precision(i).round(x * (1 + self.eps * self.rng.choice((-1.0, 1.0), x.shape)))

    def _call(self) -> Array:
        """Return the value; stop if it cannot be one, or if the function writes into its inputs."""
        case = self.case
        given = case.wrap(case.inputs)
        functions = (case.function, case.adapter.backward if isinstance(case.adapter, Plain) else None)
        before = captured_arrays(*functions)
        try:
            with np.errstate(all="ignore"):
                self._value = case.function(*given, **fresh(case.options))
                value = case.adapter.to_numpy(self._value)
        except TypeError as error:
            if isinstance(case.adapter, Tensors):
                error.add_note("check: if this is a function of NumPy arrays, give its backward pass: backward=")
            raise
        self.changed = changed_names(before, captured_arrays(*functions))
        self._require_untouched(given, case.inputs, "the function")
        if value.dtype.kind in "iub":
            raise Malformed(f"the value is of type {value.dtype}; return floating-point numbers")
        if value.dtype.kind != "f":
            raise Malformed(f"the value is of type {value.dtype}, which is not supported; return real numbers")
        if not np.isfinite(value).all():
            where = where_not_finite(lambda: case.function(*case.wrap(case.inputs), **fresh(case.options)))
            raise Stop("not finite", f"the value is {_first(value, ~np.isfinite(value))}{where and '; '}{where}")
        return np.array(value)

    def _pull_back(self, d_output: Array) -> dict[int, Array]:
        """Return the gradients; stop if they cannot be any, or if the backward pass writes into its arguments."""
        case = self.case
        with np.errstate(all="ignore"):
            gradients = self._gradients(case.inputs, d_output, guarded=True)
        for i, gradient in gradients.items():
            finite = np.isfinite(gradient)
            if not finite.all():
                where = where_not_finite(lambda: self._gradients(case.inputs, d_output))
                raise Stop("not finite", f"{case.label(i)} is {_first(gradient, ~finite)}{where and '; '}{where}")
        return gradients

    def _gradients(self, inputs: Sequence[Any], d_output: Array, guarded: bool = False) -> dict[int, Array]:
        case = self.case
        given = case.wrap(inputs)
        d_given = case.adapter.like(d_output, self._value)
        options = fresh(case.options)
        found = case.adapter.vjp(lambda *x: case.function(*x, **options), given, case.moving, d_given)
        if guarded:
            self._require_untouched(given, inputs, "the backward pass")
            if not same_bits(case.adapter.to_numpy(d_given), d_output):
                raise Stop("mutates", "the backward pass writes into the gradient of the output")
        gradients = {}
        for i in case.moving:
            if found[i] is None:
                self.none.add(i)
                gradients[i] = np.zeros(case.inputs[i].shape)
                continue
            try:
                gradient = case.adapter.to_numpy(found[i])
            except Malformed:
                raise Malformed(f"{case.label(i)} is of type {type(found[i]).__name__}; return an array") from None
            if gradient.dtype.kind != "f":
                raise Malformed(f"{case.label(i)} is of type {gradient.dtype}; return floating-point numbers")
            gradients[i] = gradient.astype(np.float64)
        return gradients

    def _require_untouched(self, given: Sequence[Any], inputs: Sequence[Any], who: str) -> None:
        for name, x, passed in zip(self.case.names, inputs, given, strict=True):
            if isinstance(x, np.ndarray) and not same_bits(after := self.case.adapter.to_numpy(passed), x):
                place = _first(after, after != x) if after.shape == np.shape(x) else f"of shape {after.shape}"
                raise Stop("mutates", f"{who} writes into its input {name}, which afterwards is {place}")

    def _require_same(self, first: Array, second: Array) -> None:
        if nearly_same(first, second, SAME * self.eps):
            return
        if first.shape != second.shape:
            raise Stop(
                "nondeterministic", f"the value has shape {first.shape} in one call and {second.shape} in the next"
            )
        different = ~np.isclose(first, second, rtol=SAME * self.eps, atol=0)
        index = tuple(int(n) for n in np.argwhere(different)[0])
        cause = f"the value at {list(index)} is {first[index]:.9g} in one call and {second[index]:.9g} in the next; "
        if self.changed:
            raise Stop(
                "nondeterministic", f"{cause}each call changes {', '.join(self.changed)}, which the function captures"
            )
        raise Stop(
            "nondeterministic", f"{cause}seed the randomness inside the function, or pass a generator as an input"
        )

    def _require_same_gradients(self, second: dict[int, Array]) -> None:
        for i, first in self.gradients.items():
            if not nearly_same(first, second[i], SAME * self.eps):
                raise Stop(
                    "nondeterministic",
                    f"{self.case.label(i)} differs in two calls of the backward pass with the same arguments; does it "
                    "add to an array that it keeps?",
                )


def _first(values: Array, where: Array) -> str:
    """Return the first of some values with its index."""
    index = tuple(int(n) for n in np.argwhere(where)[0])
    return f"{values[index]} at {list(index)}"
