"""Functions of MyGrad tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array, library_of


class MyGrad(Adapter):
    """MyGrad, whose tensors are NumPy arrays with a graph behind them."""

    name = "mygrad"
    why_no_second_order = "MyGrad's backward passes leave no graph"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a MyGrad tensor."""
        return library_of(x) == "mygrad" and hasattr(x, "dtype")

    def to_numpy(self, x: Any) -> Array:
        """Return a tensor's numbers."""
        return np.asarray(x.data) if self.recognises(x) else as_array(x, "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor."""
        return sys.modules["mygrad"].tensor(array)

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Run the backward pass of MyGrad's graph."""
        terms = []
        for output, d_output in zip(function(*inputs), d_outputs, strict=True):
            if not self.recognises(output):
                kind = type(output).__name__
                raise Malformed(f"the value is of type {kind}, without a graph; return a MyGrad tensor")
            terms.append((output * self.to_numpy(d_output)).sum())
        sum(terms).backward()
        return [inputs[i].grad if i in moving else None for i in range(len(inputs))]
