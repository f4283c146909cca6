"""The precision of arrays of any library.

NumPy knows no bfloat16. On the host, float32 holds its numbers exactly, so the checker keeps them in float32 and rounds
them to the 8 significant bits of bfloat16 by arithmetic.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array

EPS = float(np.finfo(np.float64).eps)
"""The distance from 1 to the next number of float64."""
BITS = 8
NUMPY_OWN = frozenset(map(np.dtype, "efdgFD"))
"""Types that are recognised without their name, which takes NumPy a while to make."""


class Precision(NamedTuple):
    """A type of floating-point numbers."""

    name: str
    eps: float
    """The distance from 1 to the next number."""
    host: np.dtype[Any]
    """The type that holds the numbers on the host."""

    def __str__(self) -> str:
        return self.name

    def round(self, array: Any) -> Array:
        """Return an array on the host with the nearest numbers of this type."""
        if self.name == "bfloat16":
            with np.errstate(invalid="ignore"):
                fraction, exponent = np.frexp(array)
                array = np.ldexp(np.round(np.ldexp(fraction, BITS)), exponent - BITS)
        return np.asarray(array).astype(self.host, copy=False)


def is_bfloat16(x: Any) -> bool:
    """Return whether an array of any library is of type bfloat16."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype not in NUMPY_OWN and str(dtype).rpartition(".")[2] == "bfloat16"


def precision_of(x: Any, on_host: Array) -> Precision:
    """Return the precision of an array on the host, which stands for one of any library."""
    if is_bfloat16(x) and on_host.dtype == np.float32:
        return Precision("bfloat16", 2.0 ** (1 - BITS), on_host.dtype)
    return _own_precision(on_host.dtype)


@cache  # a check asks for it at each entry
def _own_precision(dtype: np.dtype[Any]) -> Precision:
    return Precision(str(dtype), float(np.finfo(dtype).eps), dtype)
