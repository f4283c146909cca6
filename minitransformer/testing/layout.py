"""How values are laid out as real arrays: the checker moves real inputs and measures one real vector.

A value is an array, or a tuple, list or dictionary of values. Its arrays are its *leaves*, named by the way to them:
``y[0]``, ``y['loss']``, ``y.indices``. A real leaf is one *part*, a complex leaf two: ``x.real`` and ``x.imag``. So the
gradient of a complex x holds the derivatives by both parts,

    d_x = dL/dRe(x) + i dL/dIm(x)

and everything else in the checker knows real arrays only. Whole numbers and None have no gradient.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.dtypes import Precision, precision_of
from minitransformer.testing.report import Malformed


def leaves(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a value with their names."""
    children = _children(value)
    if children is None:
        return [(name, value)]
    return [leaf for key, child in children.items() for leaf in leaves(child, _name(value, name, key))]


def rebuild(value: Any, new: Iterator[Any]) -> Any:
    """Return a value of the same structure with other leaves."""
    children = _children(value)
    if children is None:
        return next(new)
    built = {key: rebuild(child, new) for key, child in children.items()}
    if isinstance(value, dict):
        result = copy.copy(value)  # of the same type, whatever its constructor takes
        for key, child in built.items():
            result[key] = child
        return result
    return getattr(type(value), "_make", type(value))(built.values())


def align(value: Any, other: Any, name: str = "") -> list[Any]:
    """Return the leaves of another value of the same structure, such as a gradient; None replaces all below it."""
    children = _children(value)
    if children is None:
        return [other]
    found = dict.fromkeys(children) if other is None else _children(other)
    if found is None or found.keys() != children.keys():
        names = ", ".join(_name(value, name, key) for key in children)
        what = type(other).__name__ if found is None else f"{type(other).__name__} of {len(found)}"
        raise Malformed(f"{name}: found {what}; return what has {names}")
    return [leaf for key, child in children.items() for leaf in align(child, found[key], _name(value, name, key))]


def _children(value: Any) -> dict[Any, Any] | None:
    """Return what a value holds, by key; None if it is a leaf."""
    if isinstance(value, dict):
        return dict(value)
    return dict(enumerate(value)) if isinstance(value, list | tuple) else None


def _name(value: Any, name: str, key: Any) -> str:
    fields = () if isinstance(value, dict) else getattr(type(value), "__match_args__", ())
    return f"{name}.{fields[key]}" if fields else f"{name}[{key!r}]"


def is_inexact(x: Any) -> bool:
    """Return whether a leaf on the host is an array of real or complex floating-point numbers."""
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def split(name: str, array: Any) -> list[tuple[str, Any]]:
    """Return the parts of a leaf with their names."""
    if not isinstance(array, np.ndarray) or array.dtype.kind != "c":
        return [(name, array)]
    return [(f"{name}.real", array.real.copy(order="K")), (f"{name}.imag", array.imag.copy(order="K"))]


def join(parts: Sequence[Any]) -> Any:
    """Return the leaf that has these parts."""
    if len(parts) == 1:
        return parts[0]
    result = np.empty(parts[0].shape, np.result_type(*parts, np.complex64))
    result.real, result.imag = parts
    return result


class Output:
    """The value of a function as one real vector; ``Malformed`` says that it cannot be one.

    The names of its leaves begin with the ``root``; ``to_numpy`` returns an array of the library on the host.
    """

    def __init__(self, value: Any, to_numpy: Callable[[Any], Array], root: str = "y") -> None:
        self.value, self.root = value, root
        named = leaves(value, root)
        self.lone = len(named) == 1 and named[0][1] is value
        """Whether the value is an array by itself."""
        self.constants: list[str] = []
        """The leaves without a gradient, with the reason."""
        self.kept: list[int] = []
        """Which leaves have a gradient."""
        self.arrays: list[Array] = []
        """These leaves on the host."""
        self.templates: list[Any] = []
        """These leaves in their library."""
        self.parts: list[tuple[str, Array]] = []
        for n, (name, leaf) in enumerate(named):
            if leaf is None and not self.lone:
                self.constants.append(f"{name} (None)")
                continue
            try:
                array = to_numpy(leaf)
            except Malformed:
                raise Malformed(f"{self.title(name)} is of type {type(leaf).__name__}; return an array") from None
            if is_inexact(array):
                self.kept.append(n)
                self.arrays.append(array)
                self.templates.append(leaf)
                self.parts += split(name, array)
            else:
                self.constants.append(f"{name} ({array.dtype})")
        if self.lone and not self.parts:
            raise Malformed(f"the value is of type {array.dtype}; return floating-point numbers")
        if not self.parts:
            what = ", ".join(self.constants) or "nothing"
            raise Malformed(f"the value holds {what}; return an array of floating-point numbers")
        flat = [part.reshape(-1) for _, part in self.parts]
        self.vector: Array = np.concatenate(flat) if len(flat) > 1 else flat[0].copy()

    @cached_property
    def precisions(self) -> list[Precision]:
        """The types of the parts."""
        pairs = zip(self.templates, self.arrays, strict=True)
        return [precision_of(leaf, part) for leaf, array in pairs for _, part in split("", array)]

    @property
    def precision(self) -> Precision:
        """The coarsest type among the parts."""
        return max(self.precisions, key=lambda precision: precision.eps)

    def title(self, name: str) -> str:
        """Return how a message names a leaf or part."""
        return "the value" if self.lone and name == self.root else f"the output {name}"

    def pieces(self, vector: Array) -> list[tuple[str, Array]]:
        """Return the parts that a vector of this layout consists of, with their names."""
        ends = np.cumsum([part.size for _, part in self.parts])[:-1]
        flat = zip(self.parts, np.split(vector, ends), strict=True)
        return [(name, piece.reshape(part.shape)) for (name, part), piece in flat]

    def conjugate(self, vector: Array) -> Array:
        """Return the vector of the complex conjugate."""
        signs = [np.full(a.size, sign) for a in self.arrays for sign, _ in zip((1, -1), split("", a), strict=False)]
        return np.asarray(vector * np.concatenate(signs).astype(vector.dtype))

    def masks(self) -> list[tuple[str, Array]]:
        """Return where in the vector each leaf is, with its name."""
        names = [leaves(self.value, self.root)[n][0] for n in self.kept]
        sizes = [array.size * (1 + (array.dtype.kind == "c")) for array in self.arrays]
        owners = np.repeat(np.arange(len(sizes)), sizes)
        return [(self.title(name), owners == n) for n, name in enumerate(names)]

    def cotangent(self, vector: Array) -> list[Array]:
        """Return the gradients of the leaves that have one, in their types."""
        pieces = iter([piece for _, piece in self.pieces(vector)])
        found = [join([next(pieces) for _ in split("", leaf)]) for leaf in self.arrays]
        return [d_leaf.astype(leaf.dtype, copy=False) for d_leaf, leaf in zip(found, self.arrays, strict=True)]

    def rounded(self, vector: Array) -> Array:
        """Return a vector rounded to the precisions of the parts."""
        pieces = zip(self.precisions, self.pieces(vector), strict=True)
        return np.concatenate([precision.round(piece).reshape(-1) for precision, (_, piece) in pieces])

    def structure(self, d_leaves: Sequence[Any]) -> Any:
        """Return gradients of the leaves that have one as the function returned its value; None for the others."""
        places = dict(zip(self.kept, d_leaves, strict=True))
        return rebuild(self.value, (places.get(n) for n in range(len(leaves(self.value)))))

    def read(self, d_output: Any, to_numpy: Callable[[Any], Array]) -> Array:
        """Return a gradient of the output in the function's structure as a vector; None counts as 0.

        A ValueError says that a structure or a shape differs from that of the output.
        """
        try:
            found = align(self.value, d_output, "d_output")
        except Malformed as error:
            raise ValueError(str(error)) from None
        pieces = []
        for n, array in zip(self.kept, self.arrays, strict=True):
            name = leaves(self.value, "d_output")[n][0]
            given = np.zeros(array.shape) if found[n] is None else found[n]
            given = to_numpy(given) if hasattr(given, "dtype") else np.asarray(given)
            if given.shape != array.shape:
                value = self.title(leaves(self.value, self.root)[n][0])
                raise ValueError(
                    f"{name} has shape {given.shape}, but {value} has shape {array.shape}; "
                    "give one number for each entry of the value"
                )
            given = given.astype(array.dtype)
            pieces += [part.reshape(-1) for _, part in split(name, given)]
        return np.concatenate(pieces)
