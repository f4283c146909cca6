"""How much two ways to compute the same numbers may differ by rounding: the size of the terms of each sum.

A sum of numbers of size S has a rounding error of about ε S, even where the numbers cancel and the sum is small. So two
results a and b are compared by

    |a - b| / max(|a|, |b|, S)

and S is found by experiment: each input, each saved number and d_output are changed by a random relative δ,
independently of each other, as rounding would change them, and S = |change of the result| / δ, the largest of a few
tries, entry by entry. If terms cancel that a backward pass recomputes from saved values, changes of these values do not
show their size; so the gradients inside the reference implementation are changed in the same way. After division by S,
correct results differ by a small multiple of ε = 2e-16 in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor
from minitransformer.testing.adapters import around_each_pass
from minitransformer.testing.case import is_float
from minitransformer.testing.rules import OperationCase, Result

DELTA = 2.0**-26  # the square root of ε: changes are visible, and their squares are not
NEARBY = 2.0**-18  # some roundings of float32
TRIES = 8


def _perturb(value: Any, delta: float, rng: np.random.Generator) -> Any:
    """Change every floating-point array in a value by a random relative amount of about delta, entry by entry."""
    if is_float(value):
        return asarray(value * asarray(1 + delta * rng.standard_normal(value.shape)))
    if isinstance(value, dict):
        return {key: _perturb(part, delta, rng) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_perturb(part, delta, rng) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def sizes_of_terms(case: OperationCase, result: Result, rng: np.random.Generator) -> Iterator[list[Array]]:
    """Yield S (see above) for each entry of the value and of each gradient: after each try, the largest so far.

    Each try runs both passes of both forms, so take the next sizes only if the previous ones do not explain a
    difference.
    """
    old = [result.value, *result.gradients.values()]
    sizes = [np.zeros(x.shape) for x in old]
    exact = _gradients_from_parts(case, result)
    for _ in range(TRIES):
        value, saved = case.forward(_perturb(case.arrays, DELTA, rng))
        gradients = case.backward(_perturb(saved, DELTA, rng), _perturb(result.d_output, DELTA, rng))
        new = [value, *(gradients[i] for i in result.gradients)]
        sizes = [_larger(size, x, was) for size, x, was in zip(sizes, new, old, strict=True)]
        inside = _gradients_from_parts(case, result, rng)
        sizes[1:] = [_larger(size, x, was) for size, x, was in zip(sizes[1:], inside, exact, strict=True)]
        yield sizes


def _larger(size: Array, new: Array | None, old: Array | None) -> Array:
    """Return S after one more try."""
    return size if new is None else np.maximum(size, change(new, old) / DELTA)


def _gradients_from_parts(
    case: OperationCase, result: Result, rng: np.random.Generator | None = None
) -> list[Array] | list[None]:
    """Return the gradients of the reference implementation (see ``from_parts``), or None for each if there is none."""
    if case.function.reference is None:
        return [None] * len(result.gradients)
    gradients = from_parts(case, result, rng)[1]
    return [gradients[i] for i in result.gradients]


def from_parts(
    case: OperationCase, result: Result, rng: np.random.Generator | None = None
) -> tuple[Tensor, dict[int, Array]]:
    """Return value and gradients of the reference; with a generator, all gradients inside are changed by δ."""
    output, tensors = case.call_reference(case.arrays, requires_grad=True)
    case.require(
        output.shape == result.value.shape,
        f"forward returns shape {result.value.shape}, reference returns shape {output.shape}",
    )
    if rng is not None:
        around_each_pass(output, lambda _, backward, d_output: _perturb(list(backward(d_output)), DELTA, rng))
    return output, case.pull_back(output, tensors, result.d_output)


def loss_of_float32(case: OperationCase, rng: np.random.Generator) -> float:
    """Return the float32 error of the reference implementation's value: the largest of a few tries nearby."""
    worst = 0.0
    for _ in range(TRIES):
        narrow = [
            x.astype(np.float32) if i in case.moving else x for i, x in enumerate(_perturb(case.arrays, NEARBY, rng))
        ]
        wide = [x.astype(np.float64) if i in case.moving else x for i, x in enumerate(narrow)]
        values = [case.call_reference(inputs)[0].data for inputs in (narrow, wide)]
        worst = max(worst, float(np.max(change(*values), initial=0.0)))
    return worst


def change(new: Any, old: Any) -> Array:
    """Return |new - old|, 0 where both are the same infinity."""
    new, old = to_numpy(new), to_numpy(old)
    with np.errstate(invalid="ignore"):
        return np.where(new == old, 0.0, np.abs(np.subtract(new, old)))
