"""Functions of this project's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array

__all__ = ["Tensors"]


class Tensors(Adapter):
    """The autograd core; an ``Operation`` is a function of tensors."""

    name = "minitransformer"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a tensor."""
        return isinstance(x, Tensor)

    def to_numpy(self, x: Any) -> Array:
        """Return the numbers of a tensor on the host."""
        return as_array(to_numpy(x.data if isinstance(x, Tensor) else x), "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor."""
        return Tensor(asarray(array))

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
                output.backward(d_output.data)
        return [given[i].grad if i in moving else None for i in range(len(given))]
