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
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.batched_matmul import TYPES, batched_matmul

__all__ = [
    "Array",
    "BackendError",
    "RowsGenerator",
    "as_indices",
    "as_mask",
    "as_optional_mask",
    "asarray",
    "backend",
    "cache_slices",
    "card",
    "checked_index",
    "device_memory",
    "free_device_memory",
    "library",
    "max_along",
    "operand",
    "out_of_memory",
    "random_bits",
    "relu_in_place",
    "row_dot",
    "scatter_add",
    "sum_along",
    "synchronize",
    "tanh_slope",
    "to_numpy",
    "use",
    "xp",
]

Array = NDArray[Any]
"""An array of the library in use. Element types are checked when the code runs, not by the type checker."""

BACKENDS = ("numpy", "cupy")
ENVIRONMENT_VARIABLE = "MINITRANSFORMER_BACKEND"
KERNELS_VARIABLE = "MINITRANSFORMER_KERNELS"
"""Set to "off", it leaves the pages to do the work on a GPU too."""
SHORT = 64
"""How many entries a row may have for its maximum to be taken the other way round."""
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8  # from malloc.h


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


def use(name: str, kernels: bool | None = None) -> None:
    """Choose the array library for everything that follows.

    Parameters
    ----------
    name : {"numpy", "cupy"}
        The library. Tensors made before the call keep the arrays that they have: choose first, then build.
    kernels : bool, optional
        Whether fused CUDA kernels may stand in for pages on a GPU. By default they do, unless the environment variable
        ``MINITRANSFORMER_KERNELS`` is "off". NumPy has none.

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
    if kernels is None:
        kernels = os.environ.get(KERNELS_VARIABLE) != "off"
    vars(xp).update(_backend=name, _library=library, _kernels=kernels and name == "cupy")


def kernels_used() -> bool:
    """Tell whether fused CUDA kernels stand in for pages: on a GPU, unless that was turned off."""
    return bool(vars(xp).get("_kernels"))


def backend() -> str:
    """Return the name of the array library in use: ``"numpy"`` or ``"cupy"``."""
    _ = xp.ndarray  # the first look-up makes the choice
    return str(vars(xp)["_backend"])


def library() -> str:
    """Return the array library in use and its version in words, such as ``"numpy 2.4.6"``."""
    return f"{backend()} {vars(xp)['_library'].__version__}"


def card() -> dict[str, Any]:
    """Return which GPU is in use, for a report: its name, its memory in bytes, and the versions that it depends on."""
    runtime = xp.cuda.runtime
    properties = runtime.getDeviceProperties(xp.cuda.Device().id)
    cuda, driver = (f"{n // 1000}.{n % 1000 // 10}" for n in (runtime.runtimeGetVersion(), runtime.driverGetVersion()))
    return {
        "name": properties["name"].decode(),
        "memory": int(properties["totalGlobalMem"]),
        "cupy": vars(xp)["_library"].__version__,
        "cuda": cuda,
        "driver": driver,
    }


def synchronize() -> None:
    """Wait until a GPU has done all that it was told to do."""
    if backend() != "numpy":
        xp.cuda.Device().synchronize()


def device_memory() -> int:
    """Return how many bytes of a GPU's memory CuPy's pool holds, in use or kept for later."""
    return int(xp.get_default_memory_pool().total_bytes())


def free_device_memory() -> None:
    """Give back what CuPy's pool holds of a GPU's memory and nobody uses."""
    xp.get_default_memory_pool().free_all_blocks()


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
    mallopt(M_ARENA_MAX, 1)  # one heap for all threads: what one has freed, another may use


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


def out_of_memory(error: BaseException) -> str:
    """Return what to say to somebody whose memory was too small, or nothing if the error is another one."""
    # CuPy's OutOfMemoryError is a MemoryError, as NumPy's is; CUDA's own libraries have only words for it.
    words = ("cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
    if not isinstance(error, MemoryError) and not any(word in str(error) for word in words):
        return ""
    where = "The computer's memory" if backend() == "numpy" else "The GPU's memory"
    return (
        f"{where} is full. Make the batches smaller (--batch-tokens), let each layer be run again in the backward pass "
        "instead of keeping what it computed (--recompute), or use a smaller model. "
        f"[{type(error).__name__}: {error}]"
    )


def asarray(data: Any) -> Array:
    """Return data as an array of the library in use, moved to the device if need be, else as it is.

    Raises
    ------
    TypeError
        If it does not consist of numbers.
    """
    array = data if hasattr(data, "dtype") else np.asarray(data)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"expected numbers, found {type(data).__name__} of {array.dtype}")
    return xp.asarray(array)


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
    if host.size and not size:
        raise IndexError(f"{operation}: found ids, but there is nothing to choose from: an axis of length 0")
    if host.size:
        low, high = int(host.min()), int(host.max())
        if low < 0 or high >= size:
            raise IndexError(
                f"{operation}: id {low if low < 0 else high} is out of range: ids must be from 0 to {size - 1}"
            )
    return xp.asarray(host)


def check_floats(operation: str, **arrays: Any) -> None:
    """Refuse arrays of anything but floating-point numbers, and of more than one type; None is passed over.

    Parameters
    ----------
    operation : str
        The name of the operation, for the message.
    **arrays
        The arrays by name.

    Raises
    ------
    TypeError
        If one holds whole numbers, say: NumPy would refuse them half-way, and in its own words. If one is float64
        beside float32: a part of the result would have the digits of the one and a part those of the other.
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
        first = first or (name, array.dtype)
        if array.dtype != first[1]:
            raise TypeError(
                f"{operation}: {first[0]} is {first[1]} and {name} {array.dtype}; give all one type, by .astype"
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
    axes = zip(mask.shape[::-1], shape[::-1], strict=False)
    if mask.ndim > len(shape) or any(m not in (1, s) for m, s in axes):
        raise ValueError(
            f"{operation}: a mask of shape {tuple(mask.shape)} cannot be broadcast to the {of}' shape {shape}"
        )
    return xp.asarray(mask)


def checked_index(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index of an array of a shape, after seeing that it lies inside.

    NumPy sees to that by itself. CuPy takes whole numbers in arrays modulo the length of the axis, so there the index
    is tried out on the host first; numbers that lie on the device are waited for.

    Parameters
    ----------
    index : tuple
        What would stand between the brackets.
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


def matmul(x: Array, y: Array, out: Array | None = None, scale: float = 1.0) -> Array:
    """Return ``scale * x @ y``, on a GPU without copying operands that are not contiguous.

    Parameters
    ----------
    x : array, shape (..., m, k)
    y : array, shape (..., k, n)
    out : array, shape (..., m, n), optional
        Where to write the product.
    scale : float
        A factor; on a GPU it costs nothing.

    Returns
    -------
    array, shape (..., m, n)
    """
    alike = x.ndim > 2 and x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-2] and x.dtype == y.dtype
    alike = alike and (out is None or (out.shape == (*x.shape[:-1], y.shape[-1]) and out.dtype == x.dtype))
    if xp.ndarray is not np.ndarray and alike and x.dtype.name in TYPES:
        return batched_matmul(vars(xp)["_library"], x, y, out, scale)
    result = xp.matmul(x, y, out=out)
    if scale != 1:
        result *= scale
    return result


def max_along(x: Array, axis: int) -> Array:
    """Return the maximum along an axis, which stays as an axis of length 1."""
    if xp.ndarray is np.ndarray and x.shape[axis] < SHORT and x.ndim > 1:
        # NumPy's maximum of many short rows is slow; that of a few long ones is not.
        rows = x.swapaxes(axis, -1)
        across = rows.reshape(-1, rows.shape[-1]).T.copy()
        return across.max(axis=0).reshape(*rows.shape[:-1], 1).swapaxes(axis, -1)
    return x.max(axis=axis, keepdims=True)


def sum_along(x: Array, axis: int) -> Array:
    """Return the sum along an axis, which stays as an axis of length 1."""
    if xp.ndarray is np.ndarray:  # for many short rows einsum is several times faster than sum
        return np.einsum("...i->...", x.swapaxes(axis, -1))[..., None].swapaxes(axis, -1)
    return x.sum(axis=axis, keepdims=True)


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


class RowsGenerator(np.random.Generator):
    """A generator for some rows of a batch: it draws for them what a plain one draws when the batch is whole.

    So a batch that is cut up among workers is given the same random numbers as in one piece. `random_bits` and
    `generator_state` take the rows' own part of the stream and skip the parts of the others; afterwards all generators
    are at the same place. Its own methods draw as a plain one's do.

    Parameters
    ----------
    bits : numpy.random.PCG64DXSM
        Where the randomness comes from; it can be moved forward without drawing.
    before, after : int
        How many rows of the batch come before these, and how many after.
    """

    def __init__(self, bits: np.random.PCG64DXSM, before: int = 0, after: int = 0) -> None:
        super().__init__(bits)
        self.bits, self.before, self.after = bits, before, after

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy be what this is."""
        return type(self), (self.bits, self.before, self.after)


def random_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw whole numbers 0 to 65,535, each as likely as any other.

    Sixteen bits cost a quarter of what a random float costs, and resolve a probability to 1 in 65,536. They are drawn
    on the host, so that every backend gets the same; the dropout kernel makes them on the GPU instead.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the randomness comes from; it is advanced.
    shape : tuple of int
        The shape of the result; the first axis is that of the rows.

    Returns
    -------
    array of uint16
    """
    # Four 16-bit numbers are cut out of each 64-bit one; each row begins with a new one.
    rows, size = (shape or (1,))[0], prod(shape[1:])
    words = -(-size // 4)
    part = rng if isinstance(rng, RowsGenerator) and (rng.before or rng.after) else None
    if part:
        part.bits.advance(part.before * words)
    bits = rng.integers(0, 2**64, size=(rows, words), dtype=np.uint64).view(np.uint16)
    if part:
        part.bits.advance(part.after * words)
    return asarray(bits[:, :size].reshape(shape))


def generator_state(rng: np.random.Generator, rows: int, words: int) -> tuple[np.uint64, ...] | None:
    """Return where a generator stands, for a kernel that draws in its place, and move it on by what that draws.

    Parameters
    ----------
    rng : numpy.random.Generator
        It is advanced as by ``random_bits``.
    rows, words : int
        How many rows, and how many numbers of 64 bits for each.

    Returns
    -------
    tuple of four uint64, or None
        The state of a PCG64DXSM and its increment, each in two halves, the higher one first; None for other generators,
        which cannot be drawn from elsewhere.
    """
    bits = rng.bit_generator
    if not isinstance(bits, np.random.PCG64DXSM):
        return None
    before, after = (rng.before, rng.after) if isinstance(rng, RowsGenerator) else (0, 0)
    bits.advance(before * words)
    numbers = bits.state["state"]
    bits.advance((rows + after) * words)
    return tuple(np.uint64(part) for name in ("state", "inc") for part in divmod(numbers[name], 2**64))


def cache_slices(length: int, size: int = 16384) -> Iterator[slice]:
    """Cut ``range(length)`` into slices that fit a processor's cache; on a GPU, into one slice.

    Several passes of arithmetic over one slice then read it from the cache, not from memory.
    """
    size = size if xp.ndarray is np.ndarray else max(length, 1)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def row_dot(x: Array, y: Array) -> Array:
    """Return the dot product of each row of x with the same row of y: (..., D), (..., D) -> (..., 1)."""
    return xp.einsum("...i,...i->...", x, y)[..., None]  # no array of products is written


def relu_in_place(x: Array) -> Array:
    """Return max(0, x), written over x."""
    return xp.maximum(x, xp.zeros(x.shape[-1:], dtype=x.dtype), out=x)  # with the number 0 NumPy is half as fast


def tanh_slope(tanh: Array) -> Array:
    """Return the derivative of tanh, 1 - tanh², where tanh has the values that are given."""
    square = tanh * tanh
    return xp.subtract(1, square, out=square)


def as_optional_mask(mask: Any, shape: tuple[int, ...], operation: str) -> Array | None:
    """Check a mask as ``as_mask`` does; None, which hides nothing, stays None."""
    return None if mask is None else as_mask(mask, shape, operation)
