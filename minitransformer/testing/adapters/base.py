"""What the checker needs to know of a library of arrays."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.dtypes import is_bfloat16
from minitransformer.testing.report import Malformed

if TYPE_CHECKING:
    from minitransformer.testing.case import FlatFunction as Flat


class Adapter(ABC):
    """Moves arrays between NumPy and a library, and runs the library's backward pass."""

    name = ""
    """The package that the library is imported from."""
    why_no_second_order = ""
    """Why the backward pass cannot be differentiated; empty if it can."""
    runs_as_it_is = False
    """Whether ``vjp`` runs the function on the same arrays as a call does, so its value must be the same."""

    @abstractmethod
    def recognises(self, x: Any) -> bool:
        """Return whether a value is an array of this library."""

    def to_numpy(self, x: Any) -> Array:
        """Return an array of this library, or a value of the function, as a NumPy array; bfloat16 as float32."""
        return as_array(x)

    @abstractmethod
    def like(self, array: Array, x: Any) -> Any:
        """Return a copy of a NumPy array as an array of this library, where x is; float32 as bfloat16 if x is that."""

    def prepare(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function such that it runs under the settings of the library that its inputs need."""
        return function

    @abstractmethod
    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Return the gradient of each moving input, or None, for one gradient of each output.

        The gradient of a complex x is dL/dRe(x) + i dL/dIm(x), of outputs as of inputs. A library that returns the
        complex conjugate of that also takes it: conjugate both. If the library differentiates backward passes, this
        can be a part of a function that is differentiated.
        """


def library_of(x: Any) -> str:
    """Return the name of the package that defines the type of a value."""
    return type(x).__module__.partition(".")[0]


def as_array(value: Any) -> Array:
    """Return a value as a NumPy array; raise ``Malformed`` if it is not one."""
    if hasattr(value, "dtype") or isinstance(value, float | int | complex):
        return np.asarray(value, np.float32 if is_bfloat16(value) else None)
    raise Malformed(f"the value is of type {type(value).__name__}; return an array")


def in_short(array: Array, x: Any) -> Array:
    """Return an array on the host in bfloat16 if it holds the numbers of such an x."""
    return array.astype(x.dtype) if is_bfloat16(x) and array.dtype == np.float32 else array


def fresh(value: Any) -> Any:
    """Return inputs or options with copies of the random generators, so that each call draws the same."""
    if isinstance(value, dict):
        return {key: fresh(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        parts = [fresh(x) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value
