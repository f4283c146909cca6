"""A function of any library's arrays, with its inputs, as one of real arrays with one real vector as its value.

Next: ``claim.py``.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from minitransformer.arrays import Array, operand, to_numpy, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.testing.adapters import Adapter, fresh
from minitransformer.testing.dtypes import EPS, Precision, precision_of
from minitransformer.testing.layout import Output, align, is_inexact, join, leaves, rebuild, split
from minitransformer.testing.report import Malformed, Refuses

MOST_LOST = 1 / 4
"""A step of which rounding takes more than this part says nothing."""
HIDES = 2.0**16
"""Terms of L that stand still are counted as rounding unless they are so many times larger than those that move."""


class Case:
    """A function of any library's arrays as one of real arrays, with one real vector as its value (see ``layout``).

    Without ``names``, the arguments have those of the function's parameters, and numbers where they are not known. The
    name of the ``checker`` is for messages. A TypeError says that the inputs are one array instead of a sequence of
    them, a ValueError that there is not one name for each, or that none has a gradient.
    """

    output_name = "y"

    def __init__(
        self,
        checker: str,
        function: Any,
        inputs: Sequence[Any],
        options: dict[str, Any],
        names: Sequence[str] | None,
        adapter: Adapter,
    ) -> None:
        self.function, self.options, self.adapter = function, options, adapter
        self.name = _name(function)
        self.title = f"{checker} of {self.name}"
        if hasattr(inputs, "dtype"):
            raise TypeError(f"{self.title}: the inputs are one array; write (x,) for a single input")
        names = _parameters(function, len(inputs)) if names is None else names
        self.given, self.argument_names = list(inputs), [str(name) for name in names]
        if len(self.argument_names) != len(inputs):
            raise ValueError(
                f"{self.title}: the number of names ({len(self.argument_names)}) is not that of the inputs "
                f"({len(inputs)}); give one for each, also for those without a gradient"
            )
        pairs = zip(self.argument_names, inputs, strict=True)
        self.leaves = [leaf for name, x in pairs for leaf in leaves(x, name)]
        """The arrays in the inputs, as they were handed over, and what else stands there; with names."""
        host = [self._on_host(x) for _, x in self.leaves]
        self.moving_leaves = [n for n, x in enumerate(host) if is_inexact(x)]
        self._converts = [is_inexact(x) or adapter.recognises(y) for x, (_, y) in zip(host, self.leaves, strict=True)]
        self._is_flat = len(host) == len(inputs) and all(x is y for x, (_, y) in zip(inputs, self.leaves, strict=True))
        parts = [split(name, x) for (name, _), x in zip(self.leaves, host, strict=True)]
        ends = np.cumsum([0, *map(len, parts)])
        self.places = [range(start, end) for start, end in pairwise(ends)]
        """The indices of the parts of each leaf among the inputs."""
        named = [part for leaf in parts for part in leaf]
        self.names, self.inputs = [name for name, _ in named], [x for _, x in named]
        """The parts of the inputs on the host, in their own precision, with their names."""
        self.moving = [i for i, x in enumerate(self.inputs) if is_float(x)]
        """The indices of the inputs that have a gradient."""
        if not self.moving:
            kinds = ", ".join(dict.fromkeys(map(_kind, self.inputs)))
            raise ValueError(
                f"{self.title}: no input is a floating-point array, so there is no gradient to check; found "
                f"{kinds or 'no inputs'}; np.asarray(x, dtype=float) makes an array of numbers"
            )

    def _on_host(self, x: Any) -> Any:
        """Return an array of a library as a NumPy array of the same precision; other values as they are."""
        known = self.adapter.recognises(x) or isinstance(x, np.ndarray | np.generic | xp.ndarray)
        return np.array(self.adapter.to_numpy(x)) if known else x

    def widened(self) -> Case:
        """Return the same function with its inputs in float64."""
        wide = copy.copy(self)
        wide.inputs = [x.astype(np.float64) if i in self.moving else x for i, x in enumerate(self.inputs)]
        return wide

    def precision(self, i: int) -> Precision:
        """Return the precision of a real input with a gradient."""
        leaf = next(x for (_, x), places in zip(self.leaves, self.places, strict=True) if i in places)
        return precision_of(leaf, self.inputs[i])

    def leaf_of(self, i: int) -> tuple[str, range]:
        """Return the name of the leaf to which a real input belongs, and the indices of all of its parts."""
        return next((name, places) for (name, _), places in zip(self.leaves, self.places, strict=True) if i in places)

    def sizes(self, i: int) -> Array:
        """Return the absolute values of a real input, or of the complex one to which it belongs, in float64."""
        parts = [self.inputs[j].astype(np.float64) for j in self.leaf_of(i)[1]]
        return np.abs(parts[0]) if len(parts) == 1 else np.hypot(*parts)

    def scales(self, i: int, typical: bool = True) -> Array:
        """Return a power of two of the size of each entry, or of a ``typical`` one where that is larger."""
        movable, sizes = np.isfinite(self.inputs[i]), self.sizes(i)
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        if typical:
            sizes = np.maximum(sizes, np.median(sizes[movable]) if movable.any() else 0.0)
        return np.asarray(2.0 ** np.round(np.log2(np.where(sizes == 0, 1.0, sizes))))

    def value(self, inputs: Sequence[Any]) -> Array:
        """Return the value of the function for some inputs, on the host."""
        try:
            return self.output(self.arguments(self.wrap(inputs))).vector
        except FloatingPointError:  # which NumPy raises only where it is asked to
            raise
        except Exception as error:  # whatever the function raises
            raise Refuses(error) from error

    def host_leaves(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves that consist of some parts, on the host."""
        return [join([inputs[i] for i in places]) for places in self.places]

    def wrap(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves that consist of some parts, as copies in the library that the function takes."""
        return [
            self.adapter.like(x, given) if converts else fresh(x)
            for x, (_, given), converts in zip(self.host_leaves(inputs), self.leaves, self._converts, strict=True)
        ]

    def arguments(self, wrapped: Sequence[Any]) -> list[Any]:
        """Return the arguments that have these leaves."""
        return list(wrapped) if self._is_flat else list(rebuild(self.given, iter(wrapped)))

    def output(self, arguments: Sequence[Any]) -> Output:
        """Return the value of the function for some arguments."""
        value = self.function(*arguments, **fresh(self.options))
        return Output(value, self.adapter.to_numpy, self.output_name)

    def along(self, directions: Mapping[int, Array]) -> Callable[[float], tuple[Array, float]]:
        """Return y, a vector, as a function of how far some inputs have moved in their directions.

        The entries of x move by what rounding leaves of a step; the sum of what it takes is returned too.
        """
        parts = []
        for i, direction in directions.items():  # only some entries move, often a single one
            given, at = self.inputs[i], direction != 0
            parts.append((i, given, at, given[at], direction[at], self.precision(i)))

        def value(t: float) -> tuple[Array, float]:
            inputs, lost = [*self.inputs], 0.0
            with np.errstate(all="ignore"):  # a step may lead out of the domain or the type; a shorter one will not
                for i, given, at, before, along, precision in parts:
                    after = precision.round(before + t * along)
                    inputs[i] = given.copy(order="K")
                    inputs[i][at] = after
                    lost += float(np.abs(after.astype(np.float64) - before - t * along).sum())
                return self.value(inputs).reshape(-1), lost

        return value

    def loss(
        self, directions: Mapping[int, Array], cotangent: Array, start: Array | None = None, eps: float = EPS
    ) -> Callable[[float], tuple[float, float]]:
        """Return the change of L when some inputs move in their directions, and the size of the terms that may change.

        The change is that of each entry of y from its value at the ``start``, weighted by the cotangent and summed: a
        sum taken first would round a small entry away beside a large one. What rounding takes of a step changes L by
        about that part of the change, which is added to the size, in units of the precision ``eps``; the size is
        infinite if rounding takes a quarter of the step.
        """
        begin = (self.value([*self.inputs]) if start is None else start).reshape(-1)
        value, factors = self.along(directions), cotangent.reshape(-1)
        length = sum(float(np.abs(direction).sum()) for direction in directions.values())
        depends: list[Array] = []

        def move(t: float) -> tuple[float, float]:
            y, lost = value(t)
            with np.errstate(all="ignore"):
                change = float((factors * (y - begin)).sum(dtype=np.longdouble))
                terms, moved = np.abs(factors * y), y != begin
                size, moving = float(terms.sum()), float(terms[moved].sum())
                if 0 < HIDES * moving < size:
                    if not depends:
                        depends.append(self._depends(directions, begin))
                    size = float(terms[moved | depends[0]].sum())
            if t and length:
                lost /= abs(t * length)
                size += abs(change) * lost / eps if lost <= MOST_LOST else np.inf
            return change, size

        return move

    def _depends(self, directions: Mapping[int, Array], start: Array) -> Array:
        """Return which entries of y depend on what moves, by what NaN in its place changes; all if that is an error."""
        try:
            y, _ = self.along(directions)(float("nan"))
        except (Refuses, FloatingPointError):
            return np.ones(start.shape, bool)
        return np.asarray(y != start) if y.shape == start.shape else np.ones(start.shape, bool)

    def label(self, i: int) -> str:
        """Return the name of the gradient of an input."""
        return f"the gradient of {self.names[i]}"

    def pull_back_parts(
        self, wrapped: Sequence[Any], output: Output, d_leaves: Sequence[Any]
    ) -> tuple[dict[int, Array | None], Any]:
        """Return the gradient of each real input in float64, or None, and the value that was computed for it.

        ``wrapped`` and ``d_leaves`` are leaves.
        """
        flat = FlatFunction(self, output)
        found = self.adapter.vjp(flat, wrapped, self.moving_leaves, d_leaves)
        gradients: dict[int, Array | None] = {}
        for n, d_leaf in zip(self.moving_leaves, found, strict=True):
            places, (name, _) = self.places[n], self.leaves[n]
            if d_leaf is None:
                gradients.update(dict.fromkeys(places))
                continue
            label = f"the gradient of {name}"
            try:
                gradient = self.adapter.to_numpy(d_leaf)
            except Malformed:
                raise Malformed(f"{label} is of type {type(d_leaf).__name__}; return an array") from None
            if not is_inexact(np.asarray(gradient)):
                raise Malformed(f"{label} is of type {gradient.dtype}; return floating-point numbers")
            if gradient.dtype.kind == "c" and len(places) == 1:
                raise Malformed(f"{label} is of type {gradient.dtype}, but {name} is real; return the real part")
            parts = [gradient.real, gradient.imag][: len(places)]
            gradients.update({i: part.astype(np.float64) for i, part in zip(places, parts, strict=True)})
        return gradients, flat.value


class FlatFunction:
    """A case as a function of the leaves of its inputs; it returns those leaves of the value that have a gradient."""

    def __init__(self, case: Case, output: Output) -> None:
        self.case, self.output, self.value = case, output, None

    def __call__(self, *wrapped: Any) -> list[Any]:
        """Return the leaves of the value that have a gradient."""
        self.value = self.case.function(*self.case.arguments(wrapped), **fresh(self.case.options))
        found = [leaf for _, leaf in leaves(self.value)]
        return [found[n] for n in self.output.kept]

    def gradients(self, found: Sequence[Any]) -> list[Any]:
        """Return the gradients of the leaves of the inputs, for one gradient of each argument."""
        names = [f"the gradient of {name}" for name in self.case.argument_names]
        triples = zip(self.case.given, found, names, strict=True)
        gradients = [leaf for given, d_given, name in triples for leaf in align(given, d_given, name)]
        for (name, x), gradient in zip(self.case.leaves, gradients, strict=True):
            if _is_number(x) and gradient is not None and np.any(self.case.adapter.to_numpy(gradient)):
                raise Malformed(
                    f"{name} is of type {getattr(x, 'dtype', type(x).__name__)} and is not checked, but the backward "
                    f"pass returns a gradient of it; pass np.array({name}, dtype=float) as the input, or return None"
                )
        return gradients


def _is_number(x: Any) -> bool:
    """Return whether a value is a Python number, or an array of whole numbers: neither has a gradient."""
    return type(x) in (int, float, complex) or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u")


def _name(function: Any) -> str:
    return str(getattr(function, "name", None) or getattr(function, "__name__", "the function"))


def _parameters(function: Any, n: int) -> list[str]:
    """Return the names of the first parameters of a function, and numbers where they are not known."""
    known: list[str] = []
    if isinstance(function, Operation):
        known = [*function.signature.parameters]
    elif isinstance(function, np.ufunc):  # it has no signature before NumPy 2.4
        known = ["x"] if function.nin == 1 else [f"x{i + 1}" for i in range(function.nin)]
    else:
        with suppress(TypeError, ValueError):
            parameters = inspect.signature(function).parameters.values()
            known = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return known[:n] + [str(i) for i in range(len(known), n)]


def is_float(x: Any) -> bool:
    """Return whether a value is an array of floating-point numbers."""
    return isinstance(x, np.ndarray | xp.ndarray) and x.dtype.kind == "f"


def in_float64(checker: str, function: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs of a function of tensors: floating-point arrays in float64, of the library in use."""
    if hasattr(inputs, "dtype"):
        raise TypeError(f"{checker} of {_name(function)}: the inputs are one array; write (x,) for a single input")
    numbers = [np.asarray(x) if isinstance(x, np.floating) else x.data if isinstance(x, Tensor) else x for x in inputs]
    return [x.astype(np.float64, copy=False) if is_float(x) else x for x in map(operand, numbers)]


def _kind(x: Any) -> str:
    """Return the type of an input, for a message."""
    if isinstance(x, np.ndarray | np.generic):
        return str(x.dtype)
    name = type(x).__name__
    return f"{name} of {x.dtype}" if hasattr(x, "dtype") else name


def draw_cotangent(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Draw a gradient of an output: signs at random, all entries different, none near 0."""
    return rng.uniform(0.5, 2.0, tuple(shape)) * rng.choice((-1.0, 1.0), tuple(shape))


def draw_direction(rng: np.random.Generator, x: Array) -> Array:
    """Draw a direction in which each entry moves by 1/2 to 2, up or down, in multiples of 1/16.

    So a single wrong entry changes the slope along each direction by at least half of its error. Normal numbers, of
    which some are near 0, would hide it by chance.
    """
    return np.asarray(np.round(16 * draw_cotangent(rng, x.shape)) / 16 * np.isfinite(x))


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal, bit by bit."""
    a, b = to_numpy(a), to_numpy(b)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def nearly_same(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether two results are equal up to the rounding of sums, which depends on the memory layout."""
    a, b = to_numpy(a), to_numpy(b)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def arrays_in(value: Any) -> Iterator[Array]:
    """Return the arrays among the values that a forward pass has saved."""
    if isinstance(value, xp.ndarray):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(part)
    elif hasattr(value, "__dict__") and not callable(value):
        yield from arrays_in(vars(value))
