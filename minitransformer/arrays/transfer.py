"""Transfers between the host and the device of the library in use. With NumPy they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays.namespace import Array, xp


def asarray(data: Any) -> Array:
    """Return data as an array of the library in use, moved to the device if necessary.

    Raises
    ------
    TypeError
        If it does not consist of numbers, or is a masked array.
    """
    array = data if hasattr(getattr(data, "dtype", None), "kind") else _read(data)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "found a masked array, whose mask would be lost, expected a plain array; "
            "use .filled(0), and a boolean mask of the entries that count"
        )
    if array.dtype.kind not in "fiub":
        kind = "real numbers" if array.dtype.kind == "c" else "numbers"
        raise TypeError(f"expected {kind}, found {type(data).__name__} of {array.dtype}")
    return xp.asarray(array)


def _read(data: Any) -> Array:
    """Return a NumPy array of lists, numbers, or the array of another library, such as a tensor of PyTorch."""
    try:
        return np.asarray(data)
    except (TypeError, RuntimeError, BufferError) as error:
        raise TypeError(
            f"expected numbers, found {type(data).__name__}, which NumPy cannot read; convert it to a NumPy array "
            f"first (NumPy says: {error})"
        ) from error


def operand(data: Any) -> Any:
    """Return an argument of an operation: lists become arrays, floating-point arrays are moved to the device.

    Whole numbers stay on the host, where they can be checked without waiting for a device; anything else is returned
    unchanged.
    """
    if isinstance(data, list | tuple) or not hasattr(getattr(data, "dtype", np.dtype), "kind"):
        data = _read(data)
    moves = isinstance(data, np.ndarray) and (data.dtype.kind == "f" or isinstance(data, np.ma.MaskedArray))
    return asarray(data) if moves else data


def to_numpy(array: Any) -> Array:
    """Return a NumPy array with the same values: a copy from the device, or the array itself."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
