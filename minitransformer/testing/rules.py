"""An operation with its inputs, and the rules that every operation must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, xp
from minitransformer.autograd import Tensor
from minitransformer.testing.adapters import Tensors, fresh
from minitransformer.testing.case import Case, arrays_in, in_float64, is_float, nearly_same, same_bits


@dataclass
class Result:
    """The value and the gradients in float64, and the cotangent that they belong to."""

    value: Array
    d_output: Array
    gradients: dict[int, Array]


class OperationCase(Case):
    """An operation with inputs in float64: the two passes written by hand, and the reference implementation."""

    def __init__(
        self,
        checker: str,
        function: Any,
        inputs: Sequence[Any],
        options: dict[str, Any],
        names: Sequence[str] | None = None,
    ) -> None:
        self.arrays = in_float64(checker, function, inputs)
        """The inputs, of the library in use, with their layout."""
        super().__init__(checker, function, self.arrays, options, names, Tensors())

    def forward(self, inputs: Sequence[Any]) -> tuple[Array, Any]:
        """Return the value and what is saved."""
        value, saved = self.function.forward(*fresh(inputs), **fresh(self.options))
        return value, saved

    def backward(self, saved: Any, d_output: Array) -> list[Array | None]:
        """Return a gradient, or None, for each input."""
        gradients = list(self.function.backward(saved, d_output))
        return gradients[: len(self.arrays)] + [None] * (len(self.arrays) - len(gradients))

    def call_reference(self, inputs: Sequence[Any], requires_grad: bool = False) -> tuple[Any, list[Any]]:
        """Return the output of the reference implementation for some inputs, and its input tensors."""
        given = [Tensor(asarray(x), requires_grad) if i in self.moving else x for i, x in enumerate(fresh(inputs))]
        return self.function.reference(*given, **fresh(self.options)), given

    def pull_back(self, output: Tensor, given: Sequence[Any], d_output: Array) -> dict[int, Array]:
        """Run the backward pass of a call; return the gradients of its inputs, zero where there is none."""
        if output.requires_grad:
            output.backward(asarray(d_output))
        return self.filled([getattr(x, "grad", None) for x in given])

    def filled(self, gradients: Sequence[Array | None]) -> dict[int, Array]:
        """Return the gradients of the inputs that have one, zero where it is None."""
        found = {i: gradients[i] for i in self.moving}
        return {i: xp.zeros_like(self.arrays[i]) if g is None else g for i, g in found.items()}

    def require(self, holds: Any, what: str) -> None:
        """Raise an AssertionError with a message unless a condition is True."""
        if not holds:
            raise AssertionError(f"{self.title}: {what}")


def keep_rules(case: OperationCase, rng: np.random.Generator) -> Result:
    """Run the operation and check that it keeps the rules."""
    given = [*zip(case.names, case.arrays, strict=True), *case.options.items()]
    before = [(name, x, x.copy()) for name, x in given if hasattr(x, "dtype")]

    def unchanged(when: str) -> None:
        for name, x, old in before:
            case.require(same_bits(x, old), f"{when} wrote into its input {name}")

    value, saved = case.forward(case.arrays)
    value = value if isinstance(value, xp.ndarray) else asarray(value)
    unchanged("forward")
    case.require(value.dtype == np.float64, f"float64 inputs gave a value of type {value.dtype}")
    # The axes are in reverse order in memory, as after a transpose: backward must not rely on C order.
    signs = rng.choice((-1.0, 1.0), value.shape[::-1])
    d_output = asarray((rng.uniform(0.5, 2.0, value.shape[::-1]) * signs).T)
    kept, d_kept = [x.copy() for x in arrays_in(saved)], d_output.copy()

    gradients = case.backward(saved, d_output)
    unchanged("backward")
    case.require(len([*arrays_in(saved)]) == len(kept), "backward changed the number of saved arrays")
    for x, old in zip(arrays_in(saved), kept, strict=True):
        case.require(same_bits(x, old), f"backward wrote into a saved array of shape {x.shape}")
    case.require(same_bits(d_output, d_kept), "backward wrote into d_output")
    again = case.backward(saved, d_output)
    for i, x in enumerate(case.arrays):
        gradient = gradients[i]
        if gradient is None or not is_float(x):
            continue
        case.require(
            gradient.shape == x.shape, f"{case.label(i)} has shape {gradient.shape}, but the input has {x.shape}"
        )
        case.require(
            gradient.dtype == x.dtype, f"{case.label(i)} is of type {gradient.dtype}, but the input is of {x.dtype}"
        )
        case.require(
            again[i] is not None and nearly_same(gradient, again[i], 1e-12),
            f"{case.label(i)} is not the same when backward runs a second time on the same saved values",
        )
    _share_nothing(case, value, saved, d_output, gradients)
    return Result(value, d_output, case.filled(gradients))


def _share_nothing(
    case: OperationCase, value: Array, saved: Any, d_output: Array, gradients: Sequence[Array | None]
) -> None:
    """Check that each gradient has memory of its own, so that the caller may write into it."""
    others = [(f"the input {name}", x) for name, x in zip(case.names, case.arrays, strict=True)]
    others += [(f"a saved array of shape {x.shape}", x) for x in arrays_in(saved)]
    others += [("d_output", d_output), ("the value", value)]
    for i, gradient in enumerate(gradients):
        if not isinstance(gradient, xp.ndarray):
            continue
        for name, other in others:
            shared = isinstance(other, xp.ndarray) and xp.shares_memory(gradient, other)
            case.require(not shared, f"{case.label(i)} shares memory with {name}; return a copy")
        others.append((case.label(i), gradient))
