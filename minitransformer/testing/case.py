"""A function of tensors with the inputs at which its gradients are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from minitransformer.arrays import Array, asarray, operand, to_numpy, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.testing.adapters import Mutates, Refuses, forbid_writing, fresh
from minitransformer.testing.dtypes import EPS, Precision, precision_of

MOST_LOST = 1 / 4
"""A step of which rounding takes more than this part says nothing."""
HIDES = 2.0**16
"""Terms of L that stand still are counted as rounding unless they are so many times larger than those that move."""


class Case:
    """A function of tensors with the inputs at which its gradients are checked.

    Parameters
    ----------
    checker : str
        The name of the check, for messages.
    function : callable
        A function of tensors; ``forward`` and ``backward`` need an ``Operation``.
    inputs : sequence of array or other
        Its positional inputs; floating-point arrays are taken in float64.
    options : dict
        Its other arguments.
    names : sequence of str, optional
        The inputs' names; by default those in an operation's ``forward``, and numbers for other functions.

    Raises
    ------
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If there is not one name for each input, or no input has a gradient.
    """

    order: Literal["C", "K"] = "C"
    """The order in memory of the arrays that the function gets: K keeps that of the inputs."""

    def __init__(
        self,
        checker: str,
        function: Any,
        inputs: Sequence[Any],
        options: dict[str, Any],
        names: Sequence[str] | None = None,
    ) -> None:
        self.function, self.options = function, options
        self.name = str(getattr(function, "name", None) or getattr(function, "__name__", "the function"))
        self.title = f"{checker} of {self.name}"
        if hasattr(inputs, "dtype"):
            raise TypeError(f"{self.title}: the inputs are one array; write (x,) for a single input")
        if names is None:
            known = [*function.signature.parameters] if isinstance(function, Operation) else []
            names = known[: len(inputs)] + [str(i) for i in range(len(known), len(inputs))]
        if len(names) != len(inputs):
            raise ValueError(
                f"{self.title}: the number of names ({len(names)}) is not that of the inputs ({len(inputs)}); "
                "give one for each, also for those without a gradient"
            )
        self.names, self.inputs = self._lay_out([str(name) for name in names], list(inputs))
        self.moving = [i for i, x in enumerate(self.inputs) if is_float(x)]
        """The indices of the inputs that have a gradient."""
        if not self.moving:
            kinds = ", ".join(dict.fromkeys(map(_kind, self.inputs)))
            raise ValueError(
                f"{self.title}: no input is a floating-point array, so there is no gradient to check; found "
                f"{kinds or 'no inputs'}; np.asarray(x, dtype=float) makes an array of numbers"
            )

    def _lay_out(self, names: list[str], inputs: list[Any]) -> tuple[list[str], list[Any]]:
        """Return the inputs as they are moved, with their names: here in float64."""
        return names, [_widen(x) for x in inputs]

    def forward(self, inputs: Sequence[Any]) -> tuple[Array, Any]:
        """Return the value and what is saved."""
        value, saved = self.function.forward(*fresh(inputs), **fresh(self.options))
        return value, saved

    def backward(self, saved: Any, d_output: Array) -> list[Array | None]:
        """Return a gradient, or None, for each input."""
        gradients = list(self.function.backward(saved, d_output))
        return gradients[: len(self.inputs)] + [None] * (len(self.inputs) - len(gradients))

    def call(
        self, inputs: Sequence[Any], requires_grad: bool = False, function: Callable[..., Tensor] | None = None
    ) -> tuple[Any, list[Any]]:
        """Return the output of the function, or of another one, for some inputs, and its input tensors."""
        given = [Tensor(asarray(x), requires_grad) if i in self.moving else x for i, x in enumerate(fresh(inputs))]
        return (self.function if function is None else function)(*given, **fresh(self.options)), given

    def claim(self, rng: np.random.Generator, d_output: Any = None) -> tuple[Array, dict[int, Array]]:
        """Return a cotangent and the gradients that the backward pass claims for it, on the host.

        This checks that the function is deterministic and finite, and does not write into its inputs.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws the cotangent.
        d_output : array, optional
            The cotangent; drawn by default.
        """
        value = _numbers(self._call_guarded()[0])
        if not np.isfinite(value).all():
            raise ValueError(f"{self.title}: the value is not finite, so nothing can be measured")
        self._require_same(value, self._call_guarded()[0])
        cotangent = np.asarray(draw_cotangent(rng, value.shape) if d_output is None else to_numpy(d_output), np.float64)
        output, given = self._call_guarded(requires_grad=True)
        if not isinstance(output, Tensor) or not output.requires_grad:
            raise ValueError(
                f"{self.title}: the output has no graph behind it; the function must return a Tensor "
                "made from its inputs by operations on tensors"
            )
        self._require_same(value, output)
        forbid_writing(output)
        try:
            gradients = {i: to_numpy(g) for i, g in self.pull_back(output, given, cotangent).items()}
        except Mutates as error:
            raise AssertionError(f"{self.title}: {error}") from None
        self._require_untouched(given, "the backward pass")
        for i, gradient in gradients.items():  # the core checks this too, but the core may be under test
            self.require(
                gradient.shape == self.inputs[i].shape,
                f"the gradient of input {self.names[i]} has shape {gradient.shape}, "
                f"but the input has shape {self.inputs[i].shape}",
            )
        return cotangent, gradients

    def gradients_for(self, d_output: Array) -> dict[int, Array]:
        """Return the gradients of the inputs, on the host, from new calls of both passes."""
        output, given = self._call_guarded(requires_grad=True)
        return {i: to_numpy(g) for i, g in self.pull_back(output, given, d_output).items()}

    def pull_back(self, output: Tensor, given: Sequence[Any], d_output: Array) -> dict[int, Array]:
        """Run the backward pass of a call; return the gradients of its inputs, zero where there is none."""
        if output.requires_grad:
            output.backward(asarray(d_output))
        grads = {i: given[i].grad for i in self.moving}
        return {i: xp.zeros_like(self.inputs[i]) if g is None else g for i, g in grads.items()}

    def precision(self, i: int) -> Precision:
        """Return the precision of an input with a gradient."""
        return precision_of(self.inputs[i], self.inputs[i])

    def sizes(self, i: int) -> Array:
        """Return the absolute values of an input, on the host."""
        return np.abs(to_numpy(self.inputs[i]))

    def scales(self, i: int, typical: bool = True) -> Array:
        """Return a power of two of the size of each entry, or of a ``typical`` one where that is larger."""
        movable, sizes = np.isfinite(to_numpy(self.inputs[i])), self.sizes(i)
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        if typical:
            sizes = np.maximum(sizes, np.median(sizes[movable]) if movable.any() else 0.0)
        return np.asarray(2.0 ** np.round(np.log2(np.where(sizes == 0, 1.0, sizes))))

    def value(self, inputs: Sequence[Any]) -> Array:
        """Return the value of the function for some inputs, on the host."""
        try:
            return self._value(inputs)
        except FloatingPointError:  # which NumPy raises only where it is asked to
            raise
        except Exception as error:  # whatever the function raises
            raise Refuses(self.title, error) from error

    def _value(self, inputs: Sequence[Any]) -> Array:
        return _numbers(self.call(inputs)[0])

    def along(self, directions: Mapping[int, Array]) -> Callable[[float], tuple[Array, float]]:
        """Return y, a vector, as a function of how far some inputs have moved in their directions.

        The entries of x move by what rounding leaves of a step; the sum of what it takes is returned too.
        """
        parts = []
        for i, direction in directions.items():  # only some entries move, often a single one
            given, at = to_numpy(self.inputs[i]), direction != 0
            parts.append((i, given, at, given[at], direction[at], self.precision(i)))

        def value(t: float) -> tuple[Array, float]:
            inputs, lost = [*self.inputs], 0.0
            with np.errstate(all="ignore"):  # a step may lead out of the domain or the type; a shorter one will not
                for i, given, at, before, along, precision in parts:
                    after = precision.round(before + t * along)
                    inputs[i] = given.copy(order=self.order)
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

    def require(self, holds: Any, what: str) -> None:
        """Raise an AssertionError with a message unless a condition is True."""
        if not holds:
            raise AssertionError(f"{self.title}: {what}")

    def _call_guarded(self, requires_grad: bool = False) -> tuple[Any, list[Any]]:
        """Call the function with copies of the inputs, and check that it does not change them."""
        output, given = self.call([x.copy() if hasattr(x, "dtype") else x for x in self.inputs], requires_grad)
        self._require_untouched(given, "the function")
        return output, given

    def _require_untouched(self, given: Sequence[Any], who: str) -> None:
        """Check that the copies still equal the inputs."""
        for name, x, copied in zip(self.names, self.inputs, given, strict=True):
            untouched = not hasattr(x, "dtype") or same_bits(copied.data if isinstance(copied, Tensor) else copied, x)
            self.require(untouched, f"{who} wrote into its input {name}")

    def _require_same(self, value: Array, output: Any) -> None:
        """Raise a ValueError if a function returns two values for the same input."""
        if not nearly_same(value, _numbers(output), 1e-10):
            raise ValueError(
                f"{self.title}: two calls with the same input gave two values; seed the randomness inside the function"
            )


@dataclass
class Result:
    """The value and the gradients in float64, and the cotangent that they belong to."""

    value: Array
    d_output: Array
    gradients: dict[int, Array]


def is_float(x: Any) -> bool:
    """Return whether a value is an array of floating-point numbers."""
    return isinstance(x, np.ndarray | xp.ndarray) and x.dtype.kind == "f"


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


def _widen(x: Any) -> Any:
    """Return floating-point arrays in float64, with the same memory layout."""
    x = operand(np.asarray(x) if isinstance(x, np.floating) else x.data if isinstance(x, Tensor) else x)
    return x.astype(np.float64, copy=False) if is_float(x) else x


def _numbers(output: Any) -> Array:
    return to_numpy(output.data if isinstance(output, Tensor) else output)


def arrays_in(value: Any) -> Iterator[Array]:
    """Return the arrays among the values that a forward pass has saved."""
    if isinstance(value, xp.ndarray):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(part)
    elif hasattr(value, "__dict__") and not callable(value):
        yield from arrays_in(vars(value))
