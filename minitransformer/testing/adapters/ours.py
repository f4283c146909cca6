"""Functions of plain arrays with a backward pass of their own, and functions of this project's tensors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.autograd.graph import Node, count_uses
from minitransformer.testing.adapters.base import Adapter, as_array, fresh, in_short, library_of
from minitransformer.testing.report import Malformed, Stop

if TYPE_CHECKING:
    from minitransformer.testing.case import FlatFunction as Flat


class Plain(Adapter):
    """Functions of NumPy or CuPy arrays: ``d_x, d_w = backward(x, w, d_y)``.

    The backward pass gets those ``options`` of the function that its signature takes.
    """

    runs_as_it_is = True

    def __init__(self, backward: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self.backward, self.options = backward, options or {}

    def recognises(self, x: Any) -> bool:
        """Return whether a value is an array of NumPy or CuPy."""
        return library_of(x) in ("numpy", "cupy") and hasattr(x, "dtype")

    def to_numpy(self, x: Any) -> Array:
        """Return an array on the host."""
        return np.asarray(x.get()) if library_of(x) == "cupy" else as_array(x)

    def like(self, array: Array, x: Any) -> Any:
        """Return a copy, on the GPU where x is there."""
        if library_of(x) == "cupy":
            return sys.modules["cupy"].asarray(array)
        return in_short(array, x).copy(order="K")

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call the function, in case it keeps what the backward pass needs, and then the backward pass."""
        function(*fresh(inputs))
        arguments = function.case.arguments(fresh(inputs))
        options = taken_by(self.backward, len(arguments) + 1, self.options)
        found = self.backward(*arguments, function.output.structure(d_outputs), **fresh(options))
        gradients = list(found) if isinstance(found, tuple | list) else [found]
        if len(gradients) != len(arguments):
            raise Malformed(
                f"the number of gradients from the backward pass ({len(gradients)}) is not that of the inputs "
                f"({len(arguments)}); return one for each, None where there is none"
            )
        leaves = function.gradients(gradients)
        return [leaves[i] for i in moving]


def taken_by(function: Callable[..., Any], n_arguments: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a function takes by name, beside its first ``n_arguments`` positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function written in C
        return {}
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:n_arguments]
    filled = {p.name for p in by_place if p.kind is p.POSITIONAL_OR_KEYWORD}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return {name: x for name, x in options.items() if name not in filled and (takes_all or name in named)}


class Tensors(Adapter):
    """The autograd core; an ``Operation`` is a function of tensors."""

    name = "minitransformer"
    why_no_second_order = "the backward passes of minitransformer's operations are written by hand and leave no graph"
    runs_as_it_is = True

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a tensor."""
        return isinstance(x, Tensor)

    def to_numpy(self, x: Any) -> Array:
        """Return the numbers of a tensor on the host."""
        return as_array(to_numpy(x.data if isinstance(x, Tensor) else x))

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor; on the host it has the memory of the array."""
        return Tensor(asarray(array))

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Run the backward pass of the graph."""
        given = [Tensor(x.data, requires_grad=True) if i in moving else x for i, x in enumerate(inputs)]
        for output, d_output in zip(function(*given), d_outputs, strict=True):
            if not isinstance(output, Tensor):
                raise Malformed(
                    f"the value is of type {type(output).__name__}, without a graph; for a function of plain arrays, "
                    "use mt.testing.check with its backward pass: backward="
                )
            if output.requires_grad:
                forbid_writing(output)
                output.backward(d_output.data)
        return [given[i].grad for i in moving]


def around_each_pass(
    output: Tensor, run: Callable[[str, Callable[[Array], Sequence[Any]], Array], Sequence[Any]]
) -> None:
    """Let ``run(name, backward, d_output)`` take the place of ``backward(d_output)`` in each node of a graph."""
    for node in count_uses(output._node) if output._node else ():
        if isinstance(node, Node) and node.backward is not None:
            node.backward = partial(run, node.name, node.backward)


def forbid_writing(output: Tensor) -> None:
    """Let the backward pass stop the check if one of its nodes writes into the gradient of its output."""

    def run(name: str, backward: Callable[[Array], Sequence[Any]], d_output: Array) -> Sequence[Any]:
        before = d_output.copy()
        gradients = backward(d_output)
        if not np.array_equal(to_numpy(d_output), to_numpy(before), equal_nan=True):
            raise Stop("mutates", f"the backward pass of {name} writes into the gradient of its output")
        return gradients

    around_each_pass(output, run)
