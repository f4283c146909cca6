"""Functions of JAX arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, as_array, conjugate, library_of
from minitransformer.testing.dtypes import is_bfloat16
from minitransformer.testing.layout import leaves


class Jax(Adapter):
    """JAX; float64 is switched on for each call with inputs in float64, and for no other."""

    name = "jax"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a JAX array of numbers; a random key is not one."""
        return library_of(x) in ("jax", "jaxlib") and hasattr(getattr(x, "dtype", None), "kind")

    def to_numpy(self, x: Any) -> Array:
        """Return an array on the host."""
        return as_array(x, "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return an array on the device of x."""
        jax = sys.modules["jax"]
        with _precision([array]):
            # JAX shares the memory of aligned NumPy arrays.
            array = array.astype(x.dtype if is_bfloat16(x) and array.dtype == np.float32 else array.dtype)
            return jax.device_put(array, x.sharding if self.recognises(x) else None)

    def prepare(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function in the precision of its inputs."""

        @functools.wraps(function)
        def run(*inputs: Any, **options: Any) -> Any:
            with _precision([x for _, x in leaves(inputs)]):
                return function(*inputs, **options)

        return run

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call ``jax.vjp``."""

        def of_moving(*moved: Any) -> list[Any]:
            places = dict(zip(moving, moved, strict=True))
            return function(*[places.get(i, x) for i, x in enumerate(inputs)])

        with _precision(inputs):
            _, pull_back = sys.modules["jax"].vjp(of_moving, *[inputs[i] for i in moving])
            found = pull_back([conjugate(d_output) for d_output in d_outputs])
            gradients = dict(zip(moving, map(conjugate, found), strict=True))
        return [gradients.get(i) for i in range(len(inputs))]


def _precision(inputs: Sequence[Any]) -> Any:
    """Return a context in which float64 is kept if one of the inputs has it."""
    jax = sys.modules["jax"]
    if not any(str(getattr(x, "dtype", "")) in ("float64", "complex128") for x in inputs):
        return nullcontext()  # the caller's own setting
    return (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True)
