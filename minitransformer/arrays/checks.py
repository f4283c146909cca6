"""Checks of ids, masks, types and indices, before any work starts."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from minitransformer.arrays.namespace import Array, xp
from minitransformer.arrays.transfer import asarray, to_numpy


def as_indices(indices: Any, size: int, operation: str) -> Array:
    """Check whole-number indices into an axis and return them as a new array of the library in use, of type ``intp``.

    CuPy silently wraps around indices that are out of range, so they are checked first, on the host, where token ids
    are created. A new array is not changed before the backward pass needs it; ``take`` accepts ``intp`` (32 bits in
    WebAssembly) everywhere.

    Parameters
    ----------
    indices : integer array of any shape
        Each must lie in ``0 <= index < size``.
    size : int
        The length of the axis.
    operation : str
        The name of the operation, for the message.

    Raises
    ------
    TypeError
        If the indices are not whole numbers.
    IndexError
        If one is out of range.
    """
    host = indices if hasattr(indices, "dtype") else np.asarray(indices)
    if host.size == 0 and host.dtype.kind == "f":  # an empty list has no type of its own
        host = host.astype(np.intp)
    if host.dtype.kind not in "iu":
        raise TypeError(f"{operation}: ids must be whole numbers, found an array of {host.dtype}")
    if host.size and not size:
        raise IndexError(f"{operation}: found ids, but the axis that they index has length 0")
    if host.size:
        low, high = int(host.min()), int(host.max())
        if low < 0 or high >= size:
            raise IndexError(
                f"{operation}: id {low if low < 0 else high} is out of range: ids must be from 0 to {size - 1}"
            )
    return asarray(host).astype(xp.intp)


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; True, False and 1.0 are not."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def check_floats(operation: str, **arrays: Any) -> None:
    """Raise a TypeError unless all arrays are float32 or all float64; None is skipped.

    In float16, sums overflow or lose small terms, and small constants such as an ε round to 0: a softmax over 8,000
    equal scores sums to 3.9, and layer norm of features with standard deviation 20 is 0.

    Parameters
    ----------
    operation : str
        The name of the operation, for the message.
    **arrays
        The arrays by name.

    Raises
    ------
    TypeError
        If an array does not hold floating-point numbers or is float16, or two have different types.
    """
    first = None
    for name, array in arrays.items():
        if array is None:
            continue
        if array.dtype.kind != "f":
            raise TypeError(
                f"{operation}: {name} must hold floating-point numbers, found {array.dtype}; write 1.0 for 1, or use "
                ".astype(float)"
            )
        if array.dtype.itemsize < 4:
            raise TypeError(
                f"{operation}: {name} must be float32 or float64, found {array.dtype}, in which sums overflow; "
                "use .astype('float32')"
            )
        first = first or (name, array.dtype)
        if array.dtype != first[1]:
            raise TypeError(
                f"{operation}: {first[0]} is {first[1]} and {name} {array.dtype}; convert all to one type with .astype"
            )


def check_gradient(wanted: bool, array: Array) -> None:
    """Raise a TypeError for a gradient of whole numbers: it would be rounded to whole numbers.

    Raises
    ------
    TypeError
        If the array does not hold floating-point numbers.
    """
    if wanted and array.dtype.kind != "f":
        raise TypeError(
            f"Tensor: only floating-point values have a gradient, found {array.dtype}; "
            "write 1.0 for 1, or convert with .astype(float)"
        )


def as_mask(mask: Any, shape: tuple[int, ...], operation: str, of: str = "scores") -> Array:
    """Check a boolean mask (True = may attend) and return it as an array of the library in use.

    Parameters
    ----------
    mask : boolean array
        Broadcastable to ``shape``.
    shape : tuple of int
        The shape of what is masked.
    operation : str
        The name of the operation, for the message.
    of : str
        What is masked, for the message.

    Raises
    ------
    TypeError
        If the mask is not boolean: 0 and 1, or 0 and -inf, mean different things to different people.
    ValueError
        If the mask cannot be broadcast to the shape.
    """
    mask = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if mask.dtype.kind != "b":
        raise TypeError(
            f"{operation}: the mask must be boolean (True = may attend), found {mask.dtype}; "
            "write `mask != 0` for a mask of ones and zeros, `mask == 0` for one to be added"
        )
    check_broadcast(mask.shape, shape, operation, "a mask", of)
    return asarray(mask)


def as_bias(bias: Any, shape: tuple[int, ...], dtype: Any, operation: str) -> Array | None:
    """Check constants that are added to scores, and return them in a type and with two axes at least; None stays None.

    Raises
    ------
    ValueError
        If the constants cannot be broadcast to the shape.
    """
    if bias is None:
        return None
    bias = asarray(bias)
    check_broadcast(bias.shape, shape, operation, "a bias")
    return xp.atleast_2d(bias).astype(dtype, copy=False)


def check_broadcast(
    found: tuple[int, ...], shape: tuple[int, ...], operation: str, what: str, of: str = "scores"
) -> None:
    """Check that an array can be broadcast to a shape.

    Raises
    ------
    ValueError
        If it cannot; the message names the operation, what the array is, and what has the shape.
    """
    axes = zip(found[::-1], shape[::-1], strict=False)
    if len(found) > len(shape) or any(n not in (1, m) for n, m in axes):
        raise ValueError(f"{operation}: {what} of shape {tuple(found)} cannot be broadcast to the {of}' shape {shape}")


def as_optional_mask(mask: Any, shape: tuple[int, ...], operation: str) -> Array | None:
    """Like ``as_mask``, but None, which hides nothing, stays None."""
    return None if mask is None else as_mask(mask, shape, operation)


def check_index(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Check an index into an array of a given shape, and return it.

    NumPy checks indices itself. CuPy takes integer arrays modulo the length of the axis, so with CuPy the index is
    tried out on the host first; this waits for indices that are on the device.

    Parameters
    ----------
    index : tuple
        The expression between the brackets.
    shape : tuple of int
        The shape of what is indexed.

    Raises
    ------
    IndexError
        If the index does not fit the shape.
    """
    if xp.ndarray is not np.ndarray:
        _ = np.broadcast_to(np.int8(0), shape)[tuple(to_numpy(i) if isinstance(i, xp.ndarray) else i for i in index)]
    return index
