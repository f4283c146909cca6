"""An operation with the inputs at which it is proved, and what a run of it gives."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.arrays import Array, operand, xp
from minitransformer.autograd import Operation, Tensor

__all__ = ["Case", "Result", "arrays_in", "fresh", "is_float"]


class Case:
    """An operation with the inputs at which it is proved.

    Parameters
    ----------
    operation : Operation
        What is proved.
    inputs : sequence of array or other
        Its positional inputs; floating-point arrays are taken in float64.
    options : dict
        Its other arguments.
    names : sequence of str, optional
        What to call the inputs; by default as ``forward`` does.
    """

    def __init__(
        self, operation: Operation, inputs: Sequence[Any], options: dict[str, Any], names: Sequence[str] | None
    ) -> None:
        self.operation, self.options = operation, options
        self.inputs = [_wide(x) for x in inputs]
        parameters = [str(n) for n in (operation.signature.parameters if names is None else names)]
        self.names = [parameters[i] if i < len(parameters) else str(i) for i in range(len(self.inputs))]
        self.moving = [i for i, x in enumerate(self.inputs) if is_float(x)]
        """The places of the inputs that have a gradient."""

    def forward(self, inputs: Sequence[Any]) -> tuple[Array, Any]:
        """Return the value and what is saved."""
        return self.operation.forward(*fresh(inputs), **fresh(self.options))

    def backward(self, saved: Any, d_output: Array) -> list[Array | None]:
        """Return a gradient, or None, for each input."""
        gradients = list(self.operation.backward(saved, d_output))
        return gradients[: len(self.inputs)] + [None] * (len(self.inputs) - len(gradients))

    def label(self, i: int) -> str:
        """Return what to call the gradient of an input."""
        return f"the gradient of {self.names[i]}"

    def require(self, holds: Any, what: str) -> None:
        """Raise an AssertionError that says what, unless something holds."""
        if not holds:
            raise AssertionError(f"prove of {self.operation.name}: {what}")


@dataclass
class Result:
    """The value and the gradients in float64, and the cotangent that they belong to."""

    value: Array
    d_output: Array
    gradients: dict[int, Array]


def is_float(x: Any) -> bool:
    """Tell whether something is an array of floating-point numbers."""
    return isinstance(x, xp.ndarray) and x.dtype.kind == "f"


def _wide(x: Any) -> Any:
    """Return floating-point arrays in float64, in the memory layout that they have."""
    x = operand(x.data if isinstance(x, Tensor) else x)
    return x.astype(np.float64, copy=False) if is_float(x) else x


def fresh(value: Any) -> Any:
    """Return inputs or options with copies of the random generators, so that each call draws the same."""
    if isinstance(value, dict):
        return {key: fresh(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        parts = [fresh(x) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value


def arrays_in(value: Any) -> Iterator[Array]:
    """Find the arrays in what a forward pass has saved."""
    if isinstance(value, xp.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from arrays_in(part)
    elif hasattr(value, "__dict__") and not callable(value):
        yield from arrays_in(vars(value))
