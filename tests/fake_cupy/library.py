"""The functions of CuPy, made of NumPy's, and the module that holds them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cuda, device, log
from .device_array import SPECIFICATION, check_call, complaint, in_range, ndarray, operand, results, upload, wrap

ARRAY_PARAMETERS = {"a", "x", "m", "v", "ary", "arr", "array", "condition", "prototype", "x1"}
"""Names of first parameters that have to be arrays of the device."""
ON_HOST = {
    "result_type", "can_cast", "min_scalar_type", "promote_types", "ndim", "shape", "size", "issubdtype", "isscalar",
    "iscomplexobj", "isrealobj", "isfortran", "broadcast_shapes", "common_type",
}  # fmt: skip
"""Functions that say something about arrays without looking inside: their results are Python's and NumPy's own."""
WAITS = {
    "argwhere",
    "bincount",
    "flatnonzero",
    "nonzero",
    "unique",
    "array_repr",
    "array_str",
    "array2string",
    "extract",
}
"""Functions that copy something to the host, the size of their result for example."""
LIKE = {"empty_like", "zeros_like", "ones_like", "full_like"}
"""Functions whose result lies in memory as their input does."""


class Ufunc:
    """A universal function: no ``where``, and only the methods that CuPy has."""

    def __init__(self, name: str, numpy: Any, has: dict[str, Any]) -> None:
        self.name = self.__name__ = name
        self._numpy, self._has = numpy, has
        self._layout = {"order": "C"} if isinstance(numpy, np.ufunc) else {}
        self.nin, self.nout = has["inputs"], has["outputs"]

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs and (unknown := kwargs.keys() - {"dtype", "casting"}):
            raise complaint("where") if "where" in unknown else TypeError(f"Wrong arguments {unknown}")
        if len(args) > self.nin:
            args, out = args[: self.nin], args[self.nin]
        host = [operand(x) for x in args]
        kwargs |= self._layout
        with np.errstate(all="ignore"):
            if out is not None:
                if not isinstance(out, ndarray):
                    raise TypeError("output must be an array of the device")
                self._numpy(*host, out=out._memory, **kwargs)
                return out
            return results(self._numpy(*host, **kwargs))

    def _method(self, method: str, array: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._has[method]:
            raise NotImplementedError(f"`cupy_{self.name}.{method}` is not supported yet")
        operand(array)
        if kwargs.keys() - {"axis", "dtype", "out", "keepdims"}:
            raise TypeError(f"{method}() got an unexpected keyword argument: one of {sorted(kwargs)}")
        host = [x._memory if isinstance(x, ndarray) else x for x in args]
        return results(getattr(self._numpy, method)(array._memory, *host, **kwargs))

    def reduce(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return self._method("reduce", array, *args, **kwargs)

    def accumulate(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return self._method("accumulate", array, *args, **kwargs)

    def reduceat(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return self._method("reduceat", array, *args, **kwargs)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        return results(self._numpy.outer(operand(a), operand(b), **kwargs))

    def at(self, array: Any, index: Any, values: Any) -> None:
        if not self._has["at"]:
            raise NotImplementedError(f"`cupy_{self.name}.at` is not supported yet")
        kinds = ("i4", "i8", "u4", "u8", "f2", "f4", "f8")
        if self.name in ("add", "subtract") and array.dtype not in kinds:
            raise TypeError(f"cupy_{self.name}.at does not take {array.dtype}")
        self._numpy.at(array._memory, array._index(index)[0], operand(values))


def _function(name: str, parameters: list[str], numpy: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a function that does what NumPy's does, with the parameters of CuPy's."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if numpy is None:
            raise NotImplementedError(f"CuPy has {name}, fake CuPy does not yet: add it to tests/fake_cupy/library.py")
        check_call(name, parameters, args, kwargs)
        if name not in ON_HOST and args and parameters[0] in ARRAY_PARAMETERS and not isinstance(args[0], ndarray):
            raise TypeError(f"Argument {parameters[0]!r} has incorrect type (expected ndarray, got {type(args[0])})")
        inputs: list[Any] = []

        def host(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(host(part) for part in value)
            if isinstance(value, np.ndarray) and name not in ON_HOST:
                raise TypeError(f"Unsupported type {type(value)}")
            if isinstance(value, ndarray):
                inputs.append(value._memory)
                return value._memory
            return value

        out = kwargs.get("out")
        if name in WAITS:
            log.to_host.append(name)
        with np.errstate(all="ignore"):
            made = numpy(*host(args), **{key: host(value) for key, value in kwargs.items()})
        if name in ON_HOST:
            return made
        if isinstance(out, ndarray):
            return out
        return wrap(made) if name in LIKE else results(made, *inputs)

    function.__name__ = name
    return function


# ---------------------------------------------------------------------------------------------------------------------
# Functions with manners of their own


def array(obj: Any, dtype: Any = None, copy: bool = True, order: Any = "K", subok: bool = False, ndmin: int = 0, *,
          blocking: bool = False) -> Any:  # fmt: skip
    if isinstance(obj, ndarray):
        if not copy and (dtype is None or obj.dtype == np.dtype(dtype)) and order in (None, "K"):
            return obj
        return wrap(np.array(obj._memory, dtype=dtype, order=order or "K", ndmin=ndmin))
    if isinstance(obj, list | tuple) and any(isinstance(part, ndarray) for part in obj):
        return wrap(np.array([operand(part) for part in obj], dtype=dtype, ndmin=ndmin))
    return upload(obj, "array", dtype=dtype, order=order or "K", ndmin=ndmin)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> Any:
    return array(a, dtype, copy=bool(copy), order=order)


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    a = asarray(a, dtype)
    return a if a.flags.c_contiguous else a.copy()


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a, order=order)


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = None) -> None:
    if isinstance(src, np.ndarray):
        if src.size != 1:
            raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
        src = src.squeeze()[()]
    np.copyto(dst._memory, operand(src), casting=casting, where=True if where is None else operand(where))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if not isinstance(condition, ndarray):
        raise AttributeError(f"{type(condition).__name__!r} object has no attribute 'astype'")
    if x is None:
        return condition.nonzero()
    return results(np.where(condition._memory, operand(x), operand(y)))


def einsum(*operands: Any, **kwargs: Any) -> Any:
    if kwargs.keys() - {"dtype", "optimize"}:
        raise TypeError(f"Did not understand the following kwargs: {sorted(kwargs.keys() - {'dtype', 'optimize'})}")
    subscripts, *arrays = operands
    return results(np.array(np.einsum(subscripts, *(operand(x) for x in arrays), **kwargs)))


def matmul(*args: Any, out: Any = None, **kwargs: Any) -> Any:
    check_call("matmul", SPECIFICATION["functions"]["matmul"], args, kwargs)
    args, out = (args[:2], args[2]) if len(args) > 2 else (args, out)
    for letter, value in zip("ab", args, strict=True):
        if not isinstance(value, ndarray):
            raise TypeError(f"Argument {letter!r} has incorrect type (expected ndarray, got {type(value)})")
    if out is None:
        return results(np.matmul(args[0]._memory, args[1]._memory))
    if not isinstance(out, ndarray):
        raise TypeError("`out` must be a tuple or `cupy.ndarray`")
    np.matmul(args[0]._memory, args[1]._memory, out=out._memory)
    return out


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    operand(a)
    return a.take(indices, axis, out)


def take_along_axis(a: Any, indices: Any, axis: Any) -> Any:
    operand(a)
    if operand(indices).dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    inside = in_range(indices._memory, a.size if axis is None else a.shape[axis], "take_along_axis")
    return results(np.take_along_axis(a._memory, inside, axis))


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    for letter, value in zip("ab", (a, b), strict=True):
        if not isinstance(value, ndarray):
            raise TypeError(f"Argument {letter!r} has incorrect type (expected ndarray, got {type(value)})")
    return np.may_share_memory(a._memory, b._memory)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    may_share_memory(a, b)
    log.to_host.append("shares_memory")
    return np.shares_memory(a._memory, b._memory)


def _unwritten(numpy: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes arrays as NumPy's does, but full of NaN: what is read before it is written shows."""

    def function(*args: Any, **kwargs: Any) -> Any:
        made = numpy(*args, **kwargs)
        made.fill(np.nan if made.dtype.kind == "f" else 99)
        return made

    return function


class Generator:
    """A generator of random numbers; equal seeds give other numbers than NumPy's do."""

    def __init__(self, seed: Any) -> None:
        self._numpy = np.random.default_rng(None if seed is None else [seed, 12])

    def __getattr__(self, name: str) -> Any:
        parameters = SPECIFICATION["generator"].get(name)
        if parameters is None:
            raise AttributeError(f"'Generator' object has no attribute {name!r}")

        def draw(*args: Any, **kwargs: Any) -> Any:
            check_call(name, parameters, args, kwargs)
            return results(getattr(self._numpy, name)(*args, **kwargs))

        return draw


class OutOfMemoryError(MemoryError):
    """What CuPy raises where the device's memory is full."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


def _module() -> types.ModuleType:
    """Return a module that can take the place of CuPy."""
    found = types.ModuleType("cupy")
    found.__version__ = SPECIFICATION["cupy"]
    for name in (*SPECIFICATION["types"], *SPECIFICATION["constants"]):
        if hasattr(np, name) and not name.startswith("_"):
            setattr(found, name, getattr(np, name))
    for name, parameters in SPECIFICATION["functions"].items():
        setattr(found, name, _function(name, parameters, getattr(np, name, None)))
    for name in ("empty", "empty_like"):
        setattr(found, name, _function(name, SPECIFICATION["functions"][name], _unwritten(getattr(np, name))))
    for name, has in SPECIFICATION["ufuncs"].items():
        numpy = getattr(np, name, None)
        setattr(found, name, _function(name, ["*a"], None) if numpy is None else Ufunc(name, numpy, has))
    for function in (array, asarray, ascontiguousarray, asnumpy, copyto, einsum, matmul, may_share_memory,
                     shares_memory, take, take_along_axis, where):  # fmt: skip
        setattr(found, function.__name__, function)
    found.ndarray, found.ufunc = ndarray, Ufunc
    found.is_available = lambda: True
    found.is_fake = True
    found.random = types.ModuleType("cupy.random")
    for name, parameters in SPECIFICATION["random"].items():
        setattr(found.random, name, _function(name, parameters, None))
    found.random.default_rng, found.random.Generator = lambda seed=None: Generator(seed), Generator
    found.linalg = types.ModuleType("cupy.linalg")
    for name, parameters in SPECIFICATION["linalg"].items():
        setattr(found.linalg, name, _function(name, parameters, getattr(np.linalg, name, None)))
    found.cuda = types.ModuleType("cupy.cuda")
    found.cuda.is_available = lambda: True
    found.cuda.cublas, found.cuda.get_cublas_handle = cuda.Cublas, lambda: 1
    found.cuda.Device, found.cuda.runtime = device.Device, device.runtime
    pool = device.MemoryPool()
    found.get_default_memory_pool = lambda: pool
    found.RawModule = cuda.RawModule
    found._core = types.ModuleType("cupy._core")
    compute_types = dict.fromkeys(map(np.dtype, ("f4", "f8")), 1)
    found._core.get_compute_type = lambda dtype: compute_types[np.dtype(dtype)]
    found._core.set_compute_type = lambda dtype, kind: compute_types.update({np.dtype(dtype): kind})
    found.cuda.memory = types.ModuleType("cupy.cuda.memory")
    found.cuda.memory.OutOfMemoryError = OutOfMemoryError
    return found


cupy = _module()
