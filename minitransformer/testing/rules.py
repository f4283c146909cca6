"""The rules that every operation must keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, xp
from minitransformer.testing.case import Case, Result, arrays_in, is_float, nearly_same, same_bits


def keep_rules(case: Case, rng: np.random.Generator) -> Result:
    """Run the operation and check that it keeps the rules."""
    given = [*zip(case.names, case.inputs, strict=True), *case.options.items()]
    before = [(name, x, x.copy()) for name, x in given if hasattr(x, "dtype")]

    def unchanged(when: str) -> None:
        for name, x, old in before:
            case.require(same_bits(x, old), f"{when} wrote into its input {name}")

    value, saved = case.forward(case.inputs)
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
    for i, x in enumerate(case.inputs):
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
    found = {i: gradients[i] for i in case.moving}
    return Result(value, d_output, {i: xp.zeros_like(case.inputs[i]) if g is None else g for i, g in found.items()})


def _share_nothing(case: Case, value: Array, saved: Any, d_output: Array, gradients: Sequence[Array | None]) -> None:
    """Check that each gradient has memory of its own, so that the caller may write into it."""
    others = [(f"the input {name}", x) for name, x in zip(case.names, case.inputs, strict=True)]
    others += [(f"a saved array of shape {x.shape}", x) for x in arrays_in(saved)]
    others += [("d_output", d_output), ("the value", value)]
    for i, gradient in enumerate(gradients):
        if not isinstance(gradient, xp.ndarray):
            continue
        for name, other in others:
            shared = isinstance(other, xp.ndarray) and xp.shares_memory(gradient, other)
            case.require(not shared, f"{case.label(i)} shares memory with {name}; return a copy")
        others.append((case.label(i), gradient))
