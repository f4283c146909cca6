"""A function of any library's arrays as one of real arrays, with one real vector as its value."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters import Adapter, Malformed, fresh
from minitransformer.testing.case import Case
from minitransformer.testing.dtypes import Precision, precision_of
from minitransformer.testing.layout import Output, align, is_inexact, join, leaves, rebuild, split


class RealCase(Case):
    """A function of any library's arrays as one of real arrays, with one real vector as its value (see ``layout``).

    Parameters
    ----------
    checker, function, inputs, options, names
        As in ``Case``; inputs keep their own precision.
    adapter : Adapter
        The library whose arrays the function takes.
    """

    order = "K"

    def __init__(
        self,
        checker: str,
        function: Any,
        inputs: Sequence[Any],
        options: dict[str, Any],
        names: Sequence[str] | None,
        adapter: Adapter,
    ) -> None:
        self.adapter, self.output_name = adapter, "y"
        super().__init__(checker, function, inputs, options, names)

    def _lay_out(self, names: list[str], inputs: list[Any]) -> tuple[list[str], list[Any]]:
        """Return the parts of the inputs on the host, with their names."""
        self.given, self.argument_names = inputs, names
        self.leaves = [leaf for name, x in zip(names, inputs, strict=True) for leaf in leaves(x, name)]
        """The arrays in the inputs, as they were handed over, and what else stands there; with names."""
        host = [self._on_host(x) for _, x in self.leaves]
        self.moving_leaves = [n for n, x in enumerate(host) if is_inexact(x)]
        parts = [split(name, x) for (name, _), x in zip(self.leaves, host, strict=True)]
        ends = np.cumsum([0, *map(len, parts)])
        self.places = [range(start, end) for start, end in pairwise(ends)]
        """The indices of the parts of each leaf among the inputs."""
        named = [part for leaf in parts for part in leaf]
        return [name for name, _ in named], [x for _, x in named]

    def _on_host(self, x: Any) -> Any:
        """Return an array of a library as a NumPy array of the same precision; other values as they are."""
        known = self.adapter.recognises(x) or isinstance(x, np.ndarray | np.generic)
        return np.array(self.adapter.to_numpy(x)) if known else x

    def widened(self) -> RealCase:
        """Return the same function with its inputs in float64."""
        wide = copy.copy(self)
        wide.inputs = [x.astype(np.float64) if i in self.moving else x for i, x in enumerate(self.inputs)]
        return wide

    def precision(self, i: int) -> Precision:
        """Return the precision of a real input with a gradient."""
        leaf = next(x for (_, x), places in zip(self.leaves, self.places, strict=True) if i in places)
        return precision_of(leaf, self.inputs[i])

    def leaf_of(self, i: int) -> tuple[str, range]:
        """Return the name of the leaf to which a real input belongs, and the indices of all of its parts."""
        return next((name, places) for (name, _), places in zip(self.leaves, self.places, strict=True) if i in places)

    def sizes(self, i: int) -> Array:
        """Return the absolute values of a real input, or of the complex one to which it belongs, in float64."""
        parts = [self.inputs[j].astype(np.float64) for j in self.leaf_of(i)[1]]
        return np.abs(parts[0]) if len(parts) == 1 else np.hypot(*parts)

    def host_leaves(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves that consist of some parts, on the host."""
        return [join([inputs[i] for i in places]) for places in self.places]

    def wrap(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves that consist of some parts, as copies in the library that the function takes."""
        return [
            self.adapter.like(x, given) if n in self.moving_leaves or self.adapter.recognises(given) else x
            for n, (x, (_, given)) in enumerate(zip(self.host_leaves(fresh(inputs)), self.leaves, strict=True))
        ]

    def arguments(self, wrapped: Sequence[Any]) -> list[Any]:
        """Return the arguments that have these leaves."""
        return list(rebuild(self.given, iter(wrapped)))

    def output(self, arguments: Sequence[Any]) -> Output:
        """Return the value of the function for some arguments."""
        value = self.function(*arguments, **fresh(self.options))
        return Output(value, self.adapter.to_numpy, self.output_name)

    def _value(self, inputs: Sequence[Any]) -> Array:
        return self.output(self.arguments(self.wrap(inputs))).vector

    def pull_back_parts(
        self, wrapped: Sequence[Any], output: Output, d_leaves: Sequence[Any]
    ) -> dict[int, Array | None]:
        """Return the gradient of each real input in float64, or None; ``wrapped`` and ``d_leaves`` are leaves.

        Raises
        ------
        Malformed
            If a gradient is none.
        """
        found = self.adapter.vjp(FlatFunction(self, output), wrapped, self.moving_leaves, d_leaves)
        gradients: dict[int, Array | None] = {}
        for n in self.moving_leaves:
            places, (name, _) = self.places[n], self.leaves[n]
            if found[n] is None:
                gradients.update(dict.fromkeys(places))
                continue
            label = f"the gradient of {name}"
            try:
                gradient = self.adapter.to_numpy(found[n])
            except Malformed:
                raise Malformed(f"{label} is of type {type(found[n]).__name__}; return an array") from None
            if not is_inexact(np.asarray(gradient)):
                raise Malformed(f"{label} is of type {gradient.dtype}; return floating-point numbers")
            if gradient.dtype.kind == "c" and len(places) == 1:
                raise Malformed(f"{label} is of type {gradient.dtype}, but {name} is real; return the real part")
            parts = [gradient.real, gradient.imag][: len(places)]
            gradients.update({i: part.astype(np.float64) for i, part in zip(places, parts, strict=True)})
        return gradients


class FlatFunction:
    """A function of the leaves of the inputs, which returns those leaves of the value that have a gradient.

    Parameters
    ----------
    case : RealCase
        The function.
    output : Output
        Its value.
    """

    def __init__(self, case: RealCase, output: Output) -> None:
        self.case, self.output = case, output

    def __call__(self, *wrapped: Any) -> list[Any]:
        """Return the leaves of the value that have a gradient."""
        value = self.case.function(*self.case.arguments(wrapped), **fresh(self.case.options))
        found = [leaf for _, leaf in leaves(value)]
        return [found[n] for n in self.output.kept]

    def arguments(self, wrapped: Sequence[Any]) -> list[Any]:
        """Return the arguments that have these leaves."""
        return self.case.arguments(wrapped)

    def d_value(self, d_leaves: Sequence[Any]) -> Any:
        """Return gradients of the leaves of the value in the structure of the value."""
        return self.output.structure(d_leaves)

    def gradients(self, found: Sequence[Any]) -> list[Any]:
        """Return the gradients of the leaves of the inputs, for one gradient of each argument."""
        names = [f"the gradient of {name}" for name in self.case.argument_names]
        triples = zip(self.case.given, found, names, strict=True)
        gradients = [leaf for given, d_given, name in triples for leaf in align(given, d_given, name)]
        for (name, x), gradient in zip(self.case.leaves, gradients, strict=True):
            if _is_number(x) and gradient is not None and np.any(self.case.adapter.to_numpy(gradient)):
                raise Malformed(
                    f"{name} is of type {getattr(x, 'dtype', type(x).__name__)} and is not checked, but the backward "
                    f"pass returns a gradient of it; pass np.array({name}, dtype=float) as the input, or return None"
                )
        return gradients


def _is_number(x: Any) -> bool:
    """Return whether a value is a Python number, or an array of whole numbers: neither has a gradient."""
    return type(x) in (int, float, complex) or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u")
