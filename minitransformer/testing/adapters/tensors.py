"""Functions of this project's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.autograd.graph import Node, count_uses
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array
from minitransformer.testing.report import Stop


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
        return as_array(to_numpy(x.data if isinstance(x, Tensor) else x), "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor with a copy."""
        return Tensor(asarray(array.copy(order="K")))

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Run the backward pass of the graph."""
        given = [Tensor(x.data, requires_grad=True) if i in moving else x for i, x in enumerate(inputs)]
        for output, d_output in zip(function(*given), d_outputs, strict=True):
            if not isinstance(output, Tensor):
                raise Malformed(
                    f"the value is of type {type(output).__name__}, without a graph; for a function of plain arrays, "
                    "give its backward pass: backward="
                )
            if output.requires_grad:
                forbid_writing(output)
                output.backward(d_output.data)
        return [given[i].grad if i in moving else None for i in range(len(given))]


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
