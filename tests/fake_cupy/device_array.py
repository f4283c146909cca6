"""An array that behaves as one of CuPy does. It is no subclass of NumPy's: NumPy would look through that."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import log

SPECIFICATION = json.loads((Path(__file__).parent / "cupy.json").read_text(encoding="utf-8"))
METHODS, ATTRIBUTES = (SPECIFICATION["ndarray"][kind] for kind in ("methods", "attributes"))
SCALARS = (bool, int, float, complex, np.generic)


def complaint(name: str) -> Exception:
    """Return an error in CuPy's own words."""
    kind, _, words = SPECIFICATION["words"][name].partition(": ")
    return {"TypeError": TypeError, "ValueError": ValueError}[kind](words)


def check_call(name: str, parameters: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that CuPy's function does not take."""
    unknown = kwargs.keys() - parameters if kwargs else ()
    if unknown and not any(p.startswith("**") for p in parameters):
        raise TypeError(f"{name}() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    if len(args) > len(parameters) and not any(p.startswith("*") for p in parameters):
        raise TypeError(f"{name}() takes {len(parameters)} positional arguments but {len(args)} were given")


def wrap(memory: Any) -> ndarray:
    """Return an array over memory that counts as the device's."""
    array = object.__new__(ndarray)
    if not isinstance(memory, np.ndarray):
        memory = np.asarray(memory)
    elif not memory.flags.writeable and not repeats(memory):
        # CuPy has no arrays that are read-only. Those whose entries share memory stay so here, though: nobody should
        # write into one, and this way it is seen.
        memory.flags.writeable = True
    array._memory = memory
    return array


def repeats(memory: Any) -> bool:
    """Tell whether several entries are one number, as after a broadcast."""
    return memory.size > 0 and any(n > 1 and not step for n, step in zip(memory.shape, memory.strides, strict=True))


def upload(data: Any, what: str, **options: Any) -> ndarray:
    """Copy numbers from the host to the device."""
    memory = np.array(data, **options)
    if memory.dtype.kind not in "biufc":
        raise ValueError(f"Unsupported dtype {memory.dtype}")
    log.to_device.append(what)
    return wrap(memory)


def operand(value: Any) -> Any:
    """Return what NumPy is to compute with: an array of the device or a number, nothing else."""
    if isinstance(value, ndarray):
        return value._memory
    if isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def results(value: Any, *inputs: Any) -> Any:
    """Return what NumPy has made as arrays of the device; what is no view of an input is in C order."""
    if isinstance(value, (list, tuple)):
        return type(value)(results(part, *inputs) for part in value)
    if isinstance(value, np.ndarray) and (
        value.flags.c_contiguous or any(np.may_share_memory(value, x) for x in inputs if isinstance(x, np.ndarray))
    ):
        return wrap(value)
    return wrap(np.asarray(value, order="C"))


class Flags:
    """How an array lies in memory; there is no ``writeable``."""

    def __init__(self, memory: Any) -> None:
        for name in SPECIFICATION["flags"]:
            setattr(self, name, getattr(memory.flags, name))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name.lower())


class ndarray:
    """CuPy's array, over memory of the host that stands for the device's."""

    __slots__ = ("__weakref__", "_memory")
    __array_priority__ = 100
    __hash__ = None
    _memory: Any

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        self._memory = np.full(shape, 77).astype(dtype).copy(order)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS or name in ATTRIBUTES or name in SPECIFICATION["ndarray"]["special"]:
            raise NotImplementedError(f"CuPy's arrays have {name}, fake CuPy's do not yet: add it to {__file__}")
        raise AttributeError(f"'ndarray' object has no attribute {name!r}")

    # What the host may know without waiting

    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    nbytes = property(lambda self: self._memory.nbytes)
    itemsize = property(lambda self: self._memory.itemsize)
    strides = property(lambda self: self._memory.strides)
    flags = property(lambda self: Flags(self._memory))
    T = property(lambda self: wrap(self._memory.T))
    mT = property(lambda self: wrap(self._memory.mT))
    data = property(lambda self: types.SimpleNamespace(ptr=self._memory.ctypes.data))
    base = property(lambda self: None if self._memory.base is None else wrap(self._memory.base))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._memory.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._memory.shape = shape

    def __len__(self) -> int:
        return len(self._memory)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # From the device to the host: each of these waits

    def _read(self, what: str) -> Any:
        log.to_host.append(what)
        return self._memory

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        memory = self._read("get")
        if out is not None:
            out[...] = memory
            return out
        return np.array(memory, order=order)

    def item(self) -> Any:
        return self._read("item").item()

    def tolist(self) -> Any:
        return self._read("tolist").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self._read("tobytes").tobytes(order)

    def nonzero(self) -> Any:
        return results(self._read("nonzero").nonzero())

    def __float__(self) -> float:
        return float(self._read("float").item())

    def __int__(self) -> int:
        return int(self._read("int").item())

    def __complex__(self) -> complex:
        return complex(self._read("complex").item())

    def __bool__(self) -> bool:
        return bool(self._read("bool"))

    def __repr__(self) -> str:
        return repr(self._read("repr"))

    def __str__(self) -> str:
        return str(self._read("str"))

    def __format__(self, form: str) -> str:
        return format(self._read("format") if self.ndim else self._read("format").item(), form)

    def __reduce__(self) -> Any:
        return _again, (self.get(),)

    # To NumPy: not without being asked

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise complaint("conversion")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        mine = _library().get(ufunc.__name__)
        if mine is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return mine(*inputs, **kwargs) if method == "__call__" else getattr(mine, method)(*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        mine = _library().get(function.__name__) if function.__module__ == "numpy" else None
        if mine is None or mine is function or any(t not in (ndarray, np.ndarray) for t in types):
            return NotImplemented
        return mine(*args, **kwargs)

    # Indexing

    def _index(self, index: Any) -> tuple[Any, bool]:
        """Return an index for NumPy, and whether the result is a view; indices out of range are wrapped."""
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(np.array(p, dtype=None if p else int) if isinstance(p, list) else p for p in parts)
        arrays = [p for p in parts if isinstance(p, ARRAYS)]
        if not arrays:
            return (parts if Ellipsis in parts else (*parts, ...)), True
        taken = sum(p.ndim if isinstance(p, ARRAYS) and p.dtype.kind == "b" else p is not None for p in parts)
        taken -= sum(p is Ellipsis for p in parts)
        axis, found = 0, []
        for part in parts:
            if part is None:
                found.append(part)
                continue
            if part is Ellipsis:
                axis += self.ndim - taken
                found.append(part)
                continue
            if isinstance(part, np.ndarray):
                log.to_device.append("index")
            memory = part._memory if isinstance(part, ndarray) else part
            if isinstance(memory, np.ndarray) and memory.dtype.kind == "b":
                axis += memory.ndim
            else:
                if isinstance(memory, np.ndarray):
                    memory = in_range(memory, self.shape[axis], "indexing")
                axis += 1
            found.append(memory)
        return tuple(found), False

    def __getitem__(self, index: Any) -> Any:
        index, view = self._index(index)
        if any(isinstance(part, np.ndarray) and part.dtype.kind == "b" for part in index):
            log.to_host.append("indexing with a mask")  # how many entries are True decides the shape
        found = self._memory[index]
        return wrap(found) if view else wrap(np.array(found, order="C"))

    def __setitem__(self, index: Any, value: Any) -> None:
        index, _ = self._index(index)
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value.item()
        if not isinstance(value, (ndarray, *SCALARS)):
            raise complaint("fill")
        with np.errstate(all="ignore"):
            self._memory[index] = operand(value)

    # Copies

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if not copy and self.dtype == np.dtype(dtype) and order == "K":
            return self
        with np.errstate(all="ignore"):
            return wrap(self._memory.astype(dtype, order=order))

    def copy(self, order: str = "C") -> ndarray:
        return wrap(self._memory.copy(order))

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return wrap(self._memory.view() if dtype is None else self._memory.view(dtype))

    def fill(self, value: Any) -> None:
        self[...] = value

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        log.to_device.append("set")
        self._memory[...] = arr

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
        if isinstance(indices, ndarray):
            indices = indices._memory
        else:
            log.to_device.append("take")
        length = self.size if axis is None else self.shape[axis]
        taken = self._memory.take(in_range(np.asarray(indices), length, "take"), axis)
        if out is not None:
            out[...] = wrap(taken)
            return out
        return wrap(np.asarray(taken, order="C"))

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self._memory.sort(axis)


ARRAYS = (ndarray, np.ndarray)


def in_range(indices: Any, length: int, what: str) -> Any:
    """Return indices as CuPy takes them, modulo the length, and report those that are out of range."""
    if not length or not indices.size or indices.dtype.kind not in "iu":
        return indices
    outside = (indices < -length) | (indices >= length)
    if outside.any():
        log.wrapped.append(f"{what}: index {indices[outside].flat[0]} of an axis of length {length}")
        return indices % length
    return indices


def _again(host: Any) -> ndarray:
    return upload(host, "unpickling")


@cache
def _library() -> dict[str, Any]:
    """Return CuPy's functions by name; they are made from the array, so they come later."""
    from . import library

    return vars(library.cupy)


def _method(name: str) -> Callable[..., Any]:
    """Return a method that does what NumPy's does, with the parameters of CuPy's."""

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        check_call(name, METHODS[name], args, kwargs)
        out = kwargs.pop("out", None)
        if out is not None:
            kwargs["out"] = operand(out)
        host = [operand(x) if isinstance(x, ARRAYS) else x for x in args]
        with np.errstate(all="ignore"):
            made = getattr(self._memory, name)(*host, **kwargs)
        return out if out is not None else results(made, self._memory)

    method.__name__ = name
    return method


def _operator(ufunc: str, reflected: bool = False, in_place: bool = False) -> Callable[..., Any]:
    def operator(self: ndarray, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", True) is None:  # it wants to do this itself
            return NotImplemented
        compares = ufunc in ("equal", "not_equal")
        if compares and not isinstance(other, np.ndarray) and type(other).__eq__ is object.__eq__:
            return NotImplemented
        function = _library()[ufunc]
        first, second = (other, self) if reflected else (self, other)
        return function(first, second, out=self) if in_place else function(first, second)

    return operator


OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "matmul": "matmul",
}
COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
SIGNS = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _add_methods() -> None:
    special = SPECIFICATION["ndarray"]["special"]
    for name, ufunc in (OPERATORS | COMPARISONS).items():
        for prefix in ("", "r", "i") if name in OPERATORS else ("",):
            if f"__{prefix}{name}__" in special:
                setattr(ndarray, f"__{prefix}{name}__", _operator(ufunc, prefix == "r", prefix == "i"))
    for name, ufunc in SIGNS.items():
        setattr(ndarray, f"__{name}__", lambda self, ufunc=ufunc: _library()[ufunc](self))
    for name in METHODS:
        if name not in vars(ndarray) and hasattr(np.ndarray, name):
            setattr(ndarray, name, _method(name))
    ndarray.__module__ = "cupy"


_add_methods()
