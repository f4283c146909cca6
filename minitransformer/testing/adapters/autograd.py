"""Functions of NumPy arrays that HIPS autograd differentiates: they use ``autograd.numpy``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, as_array


class Autograd(Adapter):
    """HIPS autograd; its functions take and return NumPy arrays."""

    name = "autograd"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a NumPy array or number."""
        return isinstance(x, np.ndarray | np.inexact)

    def to_numpy(self, x: Any) -> Array:
        """Return an array."""
        return as_array(x, "the value")

    def like(self, array: Array, x: Any) -> Any:
        """Return a copy."""
        return array.copy(order="K")

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call ``autograd.make_vjp``."""
        autograd = sys.modules["autograd"]
        try:
            pull_back, _ = autograd.make_vjp(lambda *x: autograd.list(function(*x)), tuple(moving))(*inputs)
        except (TypeError, ValueError) as error:
            error.add_note("check: if this function does not use autograd.numpy, give its backward pass: backward=")
            raise
        found = pull_back([_conjugate(d_output) for d_output in d_outputs])
        gradients = dict(zip(moving, map(_conjugate, found), strict=True))
        return [gradients.get(i) for i in range(len(inputs))]


def _conjugate(x: Any) -> Any:
    """Return the complex conjugate, which autograd calls the gradient; a real array itself, no copy."""
    return sys.modules["autograd.numpy"].conj(x) if np.iscomplexobj(x) else x  # x may be under a derivative
