"""The array library in use: NumPy on the CPU, or CuPy on an NVIDIA GPU.

Everything above this file does its arithmetic through ``xp``, the namespace of the library in use::

    from minitransformer.arrays import xp

    y = xp.exp(x)

``use("numpy")`` or ``use("cupy")`` chooses the library; without a choice the environment variable
``MINITRANSFORMER_BACKEND`` decides, and without that it is NumPy. The few calls in which the two libraries
differ are functions here, so that no other file needs to know which of them is at work. This is the only
file that imports CuPy, and it does so only when CuPy is asked for.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "BackendError",
    "as_indices",
    "as_mask",
    "asarray",
    "backend",
    "cache_slices",
    "operand",
    "random_bits",
    "scatter_add",
    "to_numpy",
    "use",
    "xp",
]

Array = NDArray[Any]
"""An array of the library in use. Element types are checked when the code runs, not by the type checker."""

BACKENDS = ("numpy", "cupy")
ENVIRONMENT_VARIABLE = "MINITRANSFORMER_BACKEND"
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # from malloc.h


class BackendError(RuntimeError):
    """The array library that was asked for is unknown or cannot run here."""


class _Namespace:
    """The functions of the library in use, as attributes.

    The library's names are copied into the instance, so that ``xp.exp`` costs one attribute look-up. Nothing
    is copied until the first look-up: that is when the environment variable is read.
    """

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that are not in the instance.
        if name.startswith("__"):
            raise AttributeError(name)
        if "_backend" not in self.__dict__:
            use(os.environ.get(ENVIRONMENT_VARIABLE) or "numpy")
        return getattr(self.__dict__["_library"], name)


xp: Any = _Namespace()


def use(name: str) -> None:
    """Choose the array library for everything that follows.

    Parameters
    ----------
    name : {"numpy", "cupy"}
        The library. Tensors made before the call keep the arrays that they have: choose first, then build.

    Raises
    ------
    BackendError
        If the name is unknown, or the library cannot run here; the message says why and what to do.
    """
    if name not in BACKENDS:
        raise BackendError(f"unknown array library {name!r}: choose one of {', '.join(BACKENDS)}")
    library = np if name == "numpy" else _working_cupy()
    if name == "numpy":
        _keep_freed_memory()
    vars(xp).clear()
    vars(xp).update({key: value for key, value in vars(library).items() if not key.startswith("_")})
    vars(xp).update(_backend=name, _library=library)


def backend() -> str:
    """Return the name of the array library in use: ``"numpy"`` or ``"cupy"``."""
    _ = xp.ndarray  # the first look-up makes the choice
    return str(vars(xp)["_backend"])


def _keep_freed_memory() -> None:
    """Ask the C library to keep the memory of freed arrays for the next ones, instead of giving it back.

    A training step makes and frees the same few hundred arrays again and again. Left alone, glibc returns the larger
    ones to the system each time, which then has to clear every page of the next: a fifth to two fifths of a small step.
    Elsewhere, or where MALLOC_ variables say what is wanted, nothing is changed.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)  # arrays up to 32 MB (glibc's limit) come from the heap, ...
    mallopt(M_TRIM_THRESHOLD, 2**30)  # ... whose top is given back only beyond 1 GB
    mallopt(M_TOP_PAD, 2**26)  # and grows by 64 MB at a time


def _working_cupy() -> Any:
    """Import CuPy and prove by one sum that it can compute, or say what is missing."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendError(
            'CuPy is not installed. Install it with: python -m pip install "minitransformer[cuda13]" '
            f'(or "[cuda12]", to match the CUDA version that nvidia-smi shows). [{error}]'
        ) from error
    if not cupy.is_available():
        raise BackendError(
            "CuPy is installed but finds no usable NVIDIA GPU: no driver, or one older than this CuPy needs. "
            "Check that nvidia-smi runs, or use the NumPy backend."
        )
    try:
        # A driver alone is not enough: the first kernel needs the CUDA compiler too.
        float((cupy.arange(2) + 1).sum())
    except Exception as error:
        raise BackendError(
            "CuPy finds a GPU but cannot run on it; the CUDA toolkit may be missing or of another version. "
            f'Try: python -m pip install "cupy-cuda13x[ctk]" (or cupy-cuda12x). CuPy said: {error}'
        ) from error
    return cupy


def asarray(data: Any) -> Array:
    """Return data as an array of the library in use, moved to the device if need be, else as it is."""
    return xp.asarray(data)


def operand(data: Any) -> Any:
    """Return what an operation is called with: lists as arrays, and floating-point arrays on the device.

    Whole numbers stay on the host, where they can be checked without waiting for a device; everything that is
    not an array stays as it is.
    """
    if isinstance(data, list | tuple):
        data = np.asarray(data)
    return asarray(data) if isinstance(data, np.ndarray) and data.dtype.kind == "f" else data


def to_numpy(array: Any) -> Array:
    """Return a NumPy array with the same values: a copy from the device, or the array itself."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def as_indices(indices: Any, size: int, operation: str) -> Array:
    """Check whole-number indices into an axis and return them as an array of the library in use.

    CuPy wraps indices that are out of range around without a word, so the check comes first; it is done on
    the host, where token ids are made.

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
        host = host.astype(np.int64)
    if host.dtype.kind not in "iu":
        raise TypeError(f"{operation}: ids must be whole numbers, found an array of {host.dtype}")
    if host.size:
        low, high = int(host.min()), int(host.max())
        if low < 0 or high >= size:
            raise IndexError(
                f"{operation}: id {low if low < 0 else high} is out of range: ids must be from 0 to {size - 1}"
            )
    return xp.asarray(host)


def as_mask(mask: Any, shape: tuple[int, ...], operation: str) -> Array:
    """Check a boolean mask (True = may attend) and return it as an array of the library in use.

    Parameters
    ----------
    mask : boolean array
        Broadcastable to ``shape``.
    shape : tuple of int
        The shape of what is masked.
    operation : str
        The name of the operation, for the message.

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
    axes = zip(mask.shape[::-1], shape[::-1], strict=False)
    if mask.ndim > len(shape) or any(m not in (1, s) for m, s in axes):
        raise ValueError(
            f"{operation}: a mask of shape {tuple(mask.shape)} cannot be broadcast to the scores' shape {shape}"
        )
    return xp.asarray(mask)


def scatter_add(shape: tuple[int, ...], indices: Array, rows: Array) -> Array:
    """Return zeros of a shape, to which each row has been added at its index; repeated indices add up.

    Parameters
    ----------
    shape : tuple of int
        (V, ...): the shape of the result.
    indices : integer array, shape (n,)
        Where each row goes.
    rows : array, shape (n, ...)
        What is added.

    Returns
    -------
    array, shape (V, ...)
        ``result[v]`` is the sum of the rows whose index is v.
    """
    result = xp.zeros(shape, dtype=rows.dtype)
    if indices.size == 0:
        return result
    if xp.ndarray is not np.ndarray:
        xp.add.at(result, indices, rows)
        return result
    # Sort the rows by index; then each index is one segment, and reduceat sums the segments.
    # np.add.at would do the same, several times slower.
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    result[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return result


def random_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw whole numbers 0 to 65,535, each as likely as any other.

    Sixteen bits cost a quarter of what a random float costs, and resolve a probability to 1 in 65,536.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the randomness comes from; it is advanced.
    shape : tuple of int
        The shape of the result.

    Returns
    -------
    array of uint16
    """
    count = int(np.prod(shape))
    if xp.ndarray is not np.ndarray:
        device = xp.random.default_rng(int(rng.integers(2**63)))
        return device.integers(0, 65536, size=shape, dtype=xp.uint16)
    # Four 16-bit numbers are cut out of each 64-bit one.
    words = rng.integers(0, 2**64, size=-(-count // 4), dtype=np.uint64)
    return words.view(np.uint16)[:count].reshape(shape)


def cache_slices(length: int, size: int = 16384) -> Iterator[slice]:
    """Cut ``range(length)`` into slices that fit a processor's cache; on a GPU, into one slice.

    Several passes of arithmetic over one slice then read it from the cache, not from memory.
    """
    size = size if xp.ndarray is np.ndarray else max(length, 1)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
