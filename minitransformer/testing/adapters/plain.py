"""Functions of arrays with a backward pass of their own: ``d_x, d_w = backward(x, w, d_y)``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array, fresh, library_of
from minitransformer.testing.dtypes import is_bfloat16


class Plain(Adapter):
    """A backward pass that takes the inputs and the gradient of the output, and returns the gradient of each input.

    Parameters
    ----------
    backward : callable
        The backward pass.
    options : dict, optional
        The options of the function. The backward pass gets those that its signature takes.
    """

    runs_as_it_is = True

    def __init__(self, backward: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self.backward, self.options = backward, options or {}

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
        options = taken_by(self.backward, len(arguments) + 1, self.options)
        found = self.backward(*arguments, function.d_value(d_outputs), **fresh(options))
        gradients = list(found) if isinstance(found, tuple | list) else [found]
        if len(gradients) != len(arguments):
            raise Malformed(
                f"the number of gradients from the backward pass ({len(gradients)}) is not that of the inputs "
                f"({len(arguments)}); return one for each, None where there is none"
            )
        return function.gradients(gradients)


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
