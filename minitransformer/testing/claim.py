"""The gradient that a backward pass claims, with guarded calls of the function and of the backward pass.

Next: ``measurement.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters import Plain, Tensors
from minitransformer.testing.case import Case, draw_cotangent, nearly_same, same_bits
from minitransformer.testing.dtypes import Precision
from minitransformer.testing.hidden import Hidden, where_not_finite
from minitransformer.testing.layout import Output, leaves
from minitransformer.testing.measurement import Measurement
from minitransformer.testing.report import Stop, at

ADDITIVE = 0.2
"""For the sum of two gradients of the output, its gradients may be off by this power of ε: rounding is not the same."""
FACTORS = (-64.0, 2.0**-20)
"""A backward pass is linear: for so many times the gradient of the output it returns so many times as much."""
SAME = 64.0
"""Two calls may differ by this many roundings: sums depend on the memory layout."""
ROUNDINGS = 16.0
"""The error of a backward pass may be this many times the change by one rounding of its arguments."""
TRIES = 3


class Claim(Measurement):
    """The gradients of L = Σ d_output y that a backward pass claims, in float64 on the host.

    Without a ``d_output``, which has the structure of the output, one is drawn. A relative error is ``allowed`` even if
    rounding does not explain it. A ``quick`` claim runs the backward pass only once: then its rounding is an error, and
    it may differ from call to call. What the function captures is not watched either.

    The check stops if the function or its backward pass is not deterministic, not finite, writes into an argument, or
    returns anything but arrays of floating-point numbers of the right shape.
    """

    def __init__(
        self, case: Case, rng: np.random.Generator, d_output: Any = None, allowed: float = 0.0, quick: bool = False
    ) -> None:
        self.case, self.rng, self.allowed, self.quick = case, rng, allowed, quick
        passes = (case.function, case.adapter.backward if isinstance(case.adapter, Plain) else None)
        self._hidden = Hidden(*(() if quick else passes))
        self.output = self._call()
        try:
            given = None if d_output is None else self.output.read(d_output, case.adapter.to_numpy)
        except ValueError as error:
            raise ValueError(f"{case.title}: {error}") from None
        d_value = self._draw() if given is None else self.output.rounded(given)
        precisions = [self.output.precision, *map(case.precision, case.moving)]
        self.work_in(max(precisions, key=lambda precision: precision.eps))
        self._require_same(self._call(), "each call")
        self._hidden.changes()
        self._differentiate(d_value)
        if not quick:
            self._require_same_gradients(self._pull_back(self.d_output))
        if not case.adapter.runs_as_it_is:
            self._require_same(self._call(), "the backward pass")

    def _differentiate(self, d_output: Array) -> None:
        """Take the gradients for a gradient of the output, a vector."""
        self.d_output = d_output
        self.start = self.output.vector
        self.size = float(np.abs(d_output.astype(np.float64) * self.start).sum())
        self.none: set[int] = set()
        """The inputs for which the backward pass returned None."""
        self.gradients = self._pull_back(d_output)
        self._scatter = None
        self._noise: dict[int, list[Array]] | None = None

    def work_in(self, precision: Precision) -> None:
        """Take a type as the coarsest in which the function works."""
        self.precision, self.eps = precision, precision.eps
        self.tolerance = max(1e-8, self.eps**0.5, self.allowed)

    def _draw(self) -> Array:
        """Draw a gradient of the output; a large output gets a small one, so that it does not hide the others."""
        sizes = np.concatenate([np.full(y.size, np.abs(y).max(initial=0.0)) for _, y in self.output.parts])
        scales = 1.0 if len(self.output.parts) == 1 else 2.0 ** -np.ceil(np.log2(np.maximum(sizes, 1.0)))
        return self.output.rounded(scales * draw_cotangent(self.rng, self.output.vector.shape))

    def noise(self, i: int) -> Array:
        """Return how much one rounding of the inputs changes the gradient of an input, entry by entry."""
        return np.max(np.abs(self._changes(i)), axis=0)

    def noise_along(self, i: int, direction: Array) -> float:
        """Return the error along a direction that the rounding of the backward pass explains."""
        changes = [] if self.quick else self._changes(i)
        return ROUNDINGS * max((abs(float((change * direction).sum())) for change in changes), default=0.0)

    def _changes(self, i: int) -> list[Array]:
        """Return some changes of the gradient of an input by one rounding of the inputs."""
        if self._noise is None:
            self._noise = {j: [np.zeros(g.shape)] for j, g in self.gradients.items()}
            for _ in range(TRIES):
                with np.errstate(all="ignore"):
                    found = self._gradients(self.nearby(self.eps), self.d_output)
                for j, g in self.gradients.items():
                    if found[j].shape == g.shape and np.isfinite(found[j]).all():
                        self._noise[j].append(found[j] - g)
        return self._noise[i]

    def nearby(self, change: float) -> list[Any]:
        """Return inputs of which each entry has changed by plus or minus a relative amount."""

        def nudge(i: int, x: Array) -> Array:
            return self.case.precision(i).round(x * (1 + change * self.rng.choice((-1.0, 1.0), x.shape)))

        return [nudge(i, x) if i in self.case.moving else x for i, x in enumerate(self.case.inputs)]

    def of_each_output(self) -> Iterator[tuple[str, Claim]]:
        """Yield the claims for one output alone, with its name; none if there is only one."""
        masks = self.output.masks()
        for name, mask in masks if len(masks) > 1 else ():
            alone = copy.copy(self)
            alone._differentiate(np.where(mask, self.d_output, 0).astype(self.d_output.dtype))
            yield name, alone

    def gradients_for(self, d_output: Array) -> dict[int, Array]:
        """Return the gradients that the backward pass claims for another gradient of the output."""
        return self._gradients(self.case.inputs, d_output)

    def why_not_linear(self) -> str:
        """Return where the backward pass is not linear in the gradient of the output, in a sentence; "" if nowhere.

        Finite differences are compared for one gradient of the output, so they cannot see a sign that is lost in it.
        """
        ratios = self.rng.choice((-2.0, -0.5, 0.5, 2.0), self.d_output.shape)
        other = (ratios * self.d_output).astype(self.d_output.dtype)
        with np.errstate(all="ignore"):
            for factor in FACTORS:
                scaled = {i: factor * g for i, g in self.gradients.items()}
                where = f"for {factor:g} times the gradient of the output"
                text = self._where_they_differ(
                    self.gradients_for(factor * self.d_output), scaled, SAME * self.eps, where
                )
                if text:
                    return text
            parts = self.gradients_for(other)
            added = {i: g + parts[i] for i, g in self.gradients.items()}
            where = "for the sum of two gradients of the output"
            found = self.gradients_for(self.d_output + other)
            return self._where_they_differ(found, added, self.eps**ADDITIVE, where, parts)

    def _where_they_differ(
        self,
        found: dict[int, Array],
        expected: dict[int, Array],
        tolerance: float,
        where: str,
        terms: dict[int, Array] | None = None,
    ) -> str:
        """Return where gradients differ from what a linear backward pass returns, in a sentence; "" if nowhere.

        The size of the ``terms`` of a sum, and that of the gradient of the output, bound what its rounding may change.
        """
        for i, gradient in found.items():
            wanted = expected[i]
            compared = [gradient, wanted] + ([terms[i]] if terms else [])
            size = max(float(np.abs(x).max(initial=0.0)) for x in compared)
            least = SAME * self.eps * float(np.abs(self.d_output).max(initial=0.0)) if terms else 0.0
            limits = np.finfo(self.case.precision(i).host)
            if size < float(limits.tiny) / self.eps or not np.isfinite(gradient).all():
                continue  # too small or too large for the type
            off = np.abs(gradient - wanted)
            if (off > tolerance * (np.abs(wanted) + size) + least).any():
                index = np.unravel_index(int(off.argmax()), gradient.shape)
                return (
                    f"the backward pass is not linear: {where}, "
                    f"{self.case.label(i)}{at(tuple(map(int, index)))} is {gradient[index]:.6g} instead of "
                    f"{wanted[index]:.6g}"
                )
        return ""

    def ignores_d_output(self) -> bool:
        """Return whether another gradient of the output leaves the gradients of the inputs as they are."""
        d_output = self._draw()
        with np.errstate(all="ignore"):
            other = self._gradients(self.case.inputs, d_output)
        used = [i for i, g in self.gradients.items() if g.any()]
        return bool(used) and all(np.array_equal(other[i], self.gradients[i]) for i in used)

    def gradients_for_conjugate(self) -> dict[int, Array]:
        """Return the gradients for the complex conjugate of the gradient of the output; none if the output is real."""
        d_output = self.output.conjugate(self.d_output)
        if np.array_equal(d_output, self.d_output):
            return {}
        with np.errstate(all="ignore"):
            return self._gradients(self.case.inputs, d_output)

    def _call(self) -> Output:
        """Return the value; stop if it cannot be one, or if the function writes into its inputs."""
        case = self.case
        try:
            arguments = case.arguments(case.wrap(_copies(case.inputs)))
            with np.errstate(all="ignore"):
                output = case.output(arguments)
        except TypeError as error:
            if isinstance(case.adapter, Tensors):
                error.add_note(
                    f"{case.title}: the function was called with tensors of minitransformer; if it takes NumPy arrays, "
                    "use mt.testing.check with its backward pass: backward="
                )
            raise
        self._require_untouched([leaf for x in arguments for _, leaf in leaves(x)], case.inputs, "the function")
        if not np.isfinite(output.vector).all():
            where = where_not_finite(lambda: case.value(case.inputs))
            name, part = next((name, part) for name, part in output.parts if not np.isfinite(part).all())
            cause = f"{output.title(name)} is {_first(part, ~np.isfinite(part))}{where and '; '}{where}"
            raise Stop("not finite", cause)
        return output

    def _pull_back(self, d_output: Array) -> dict[int, Array]:
        """Return the gradients; stop if they cannot be any, or if the backward pass writes into its arguments."""
        case = self.case
        with np.errstate(all="ignore"):
            gradients = self._gradients(case.inputs, d_output, guarded=True)
        for i, gradient in gradients.items():
            finite = np.isfinite(gradient)
            if not finite.all():
                where = where_not_finite(lambda: self._gradients(case.inputs, d_output))
                raise Stop("not finite", f"{case.label(i)} is {_first(gradient, ~finite)}{where and '; '}{where}", True)
        return gradients

    def _gradients(self, inputs: Sequence[Any], d_output: Array, guarded: bool = False) -> dict[int, Array]:
        """Return the gradients of the inputs, zero where there is none, for a gradient of the output, a vector."""
        case = self.case
        wrapped = case.wrap(_copies(inputs))
        d_host = self.output.cotangent(d_output)
        d_leaves = [case.adapter.like(*pair) for pair in zip(d_host, self.output.templates, strict=True)]
        found, value = case.pull_back_parts(wrapped, self.output, d_leaves)
        if guarded:
            if case.adapter.runs_as_it_is:
                self._require_same(Output(value, case.adapter.to_numpy, case.output_name), "the backward pass")
                self.recorded = value
            self._require_untouched(wrapped, inputs, "the backward pass")
            if not all(map(same_bits, map(case.adapter.to_numpy, d_leaves), d_host)):
                raise Stop("mutates", "the backward pass writes into the gradient of the output")
        self.none |= {i for i, gradient in found.items() if gradient is None}
        return {i: np.zeros(case.inputs[i].shape) if g is None else g for i, g in found.items()}

    def _require_untouched(self, passed: Sequence[Any], inputs: Sequence[Any], who: str) -> None:
        """Stop if leaves that were passed to the function differ from the inputs."""
        case, names = self.case, [name for name, _ in self.case.leaves]
        if len(passed) != len(names):
            raise Stop("mutates", f"{who} adds to or takes from a list or dictionary among its inputs")
        for name, x, leaf in zip(names, case.host_leaves(inputs), passed, strict=True):
            if isinstance(x, np.ndarray) and not same_bits(now := case.adapter.to_numpy(leaf), x):
                fits = now.shape == x.shape
                # NaN that was there before and stays was not written
                place = _first(now, (now != x) & ((now == now) | (x == x))) if fits else f"of shape {now.shape}"
                raise Stop("mutates", f"{who} writes into its input {name}, which afterwards is {place}")

    def _require_same(self, again: Output, who: str) -> None:
        """Stop if a second call returned another value; name what ``who`` has changed between them."""
        names, others = ([name for name, _ in output.parts] for output in (self.output, again))
        if names != others:
            cause = f"the function returns {', '.join(names)} in one call and {', '.join(others)} in the next"
            raise Stop("nondeterministic", cause)
        for (name, first), (_, second) in zip(self.output.parts, again.parts, strict=True):
            if nearly_same(first, second, SAME * self.eps):
                continue
            title = self.output.title(name)
            if first.shape != second.shape:
                cause = f"{title} has shape {first.shape} in one call and {second.shape} in the next"
                raise Stop("nondeterministic", cause)
            different = ~np.isclose(first, second, rtol=SAME * self.eps, atol=0)
            index = tuple(int(n) for n in np.argwhere(different)[0])
            cause = f"{title}{at(index)} is {first[index]:.9g} in one call and {second[index]:.9g} in the next; "
            changed = self._hidden.changes()
            captured = f"{who} changes {_list(changed)}, which the function captures" if changed else ""
            cause += captured or "seed the randomness inside the function, or pass a generator as an input"
            raise Stop("nondeterministic", cause)

    def _require_same_gradients(self, second: dict[int, Array]) -> None:
        for i, first in self.gradients.items():
            if nearly_same(first, second[i], SAME * self.eps):
                continue
            changed = _list(self._hidden.changes())
            captured = changed and f"the backward pass changes {changed}, which it captures"
            captured = captured or "does it draw random numbers, or add to an array that it keeps?"
            cause = f"{self.case.label(i)} differs in two calls of the backward pass with the same arguments; "
            raise Stop("nondeterministic", cause + captured, True)


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in inputs]


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _first(values: Array, where: Array) -> str:
    """Return the first of some values with its index."""
    index = tuple(int(n) for n in np.argwhere(where)[0])
    return f"{values[index]}{at(index)}"
