"""Functions of arrays with a backward pass of their own: ``d_x, d_w = backward(x, w, d_y)``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array, fresh, library_of
from minitransformer.testing.dtypes import is_bfloat16


class Plain(Adapter):
    """A backward pass that takes the inputs and the gradient of the output, and returns the gradient of each input."""

    def __init__(self, backward: Callable[..., Any]) -> None:
        self.backward = backward

    def recognises(self, x: Any) -> bool:
        """Return whether a value is an array of NumPy or CuPy."""
        return library_of(x) in ("numpy", "cupy") and hasattr(x, "dtype")

    def to_numpy(self, x: Any) -> Array:
        """Return an array on the host."""
        return np.asarray(x.get()) if library_of(x) == "cupy" else as_array(x, "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return a copy, on the GPU where x is there."""
        if library_of(x) == "cupy":
            return sys.modules["cupy"].asarray(array)
        return array.astype(x.dtype if is_bfloat16(x) and array.dtype == np.float32 else array.dtype, order="K")

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call the function, in case it keeps what the backward pass needs, and then the backward pass."""
        function(*fresh(inputs))
        arguments = function.arguments(fresh(inputs))
        found = self.backward(*arguments, function.d_value(d_outputs))
        gradients = list(found) if isinstance(found, tuple | list) else [found]
        if len(gradients) != len(arguments):
            raise Malformed(
                f"the number of gradients from the backward pass ({len(gradients)}) is not that of the inputs "
                f"({len(arguments)}); return one for each, None where there is none"
            )
        return function.gradients(gradients)
