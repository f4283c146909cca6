"""What a function of the corpus consists of, and an independent measurement of its derivatives."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BOTH = ("float64", "float32")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A function of NumPy arrays with a gradient, at inputs."""

    name: str
    group: str
    """``"gallery"``, ``"hard"`` or ``"reported"``."""
    forward: Callable[..., Any]
    """``y = forward(*inputs)``."""
    backward: Callable[..., Any]
    """``gradients = backward(*inputs, d_y)``: one gradient, or None, for each input."""
    inputs: tuple[Any, ...]
    right: bool
    note: str
    """Why a right gradient is hard to see as right; what is wrong with a wrong one."""
    dtypes: tuple[str, ...] = BOTH
    kink: bool = False
    """Whether the function has a kink at the inputs; the gradient is then one of the slopes between both sides."""
    step: float = 1e-6
    """The step of the independent measurement, relative to the inputs; below the distance of the nearest kink."""
    tolerance: float = 1e-7
    """The relative error of the independent measurement."""
    rounding: float = 64.0
    """The error of a right gradient that rounding explains, in units of the precision and of its largest entry."""
    refutable: bool = True
    """Whether a wrong gradient is called wrong in all draws; else it may be undecided, but never right."""
    source: str = ""
    """The thread from which a reported case was rebuilt."""

    def at(self, dtype: str) -> list[Any]:
        """Return copies of the inputs, with floating-point arrays in a precision."""
        return [x.astype(dtype) if is_float(x) else copy.deepcopy(x) for x in self.inputs]

    @property
    def moving(self) -> list[int]:
        """The indices of the inputs that have a gradient."""
        return [i for i, x in enumerate(self.inputs) if is_float(x)]


def draw(*shape: int, seed: int = 1) -> Any:
    """Draw standard normal numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def read_formulas(module: str, names: dict[str, Any], **fields: Any) -> list[Sample]:
    """Return the functions in the TOML file beside a module; their formulas use its names, ``np`` and ``draw``."""
    tables = tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))
    names = {"np": np, "draw": draw} | names
    return [of_formulas(names, name=name, **fields | more) for name, more in tables.items()]


def of_formulas(
    names: dict[str, Any],
    value: str,
    inputs: dict[str, str],
    slope: str = "",
    gradients: str | list[str] = "",
    dtypes: Sequence[str] = BOTH,
    **fields: Any,
) -> Sample:
    """Return a function whose value and gradient are given as formulas."""
    if slope:
        gradients = [f"d_y * ({slope})"]
    if isinstance(gradients, list):
        gradients = f"({', '.join(gradients)},)"
    arguments = ", ".join(inputs)
    return Sample(
        forward=eval(f"lambda {arguments}: {value}", names),
        backward=eval(f"lambda {arguments}, d_y: {gradients}", names),
        inputs=tuple(eval(formula, names) for formula in inputs.values()),
        dtypes=tuple(dtypes),
        **{"group": "hard", "right": True, **fields},
    )


def is_float(x: Any) -> bool:
    """Return whether an input has a gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def cotangent(sample: Sample, dtype: str) -> Any:
    """Return a gradient of the output with both signs and no entry near 0."""
    y = np.asarray(sample.forward(*sample.at(dtype)))
    rng = np.random.default_rng(7)
    return (rng.uniform(0.5, 2.0, y.shape) * rng.choice((-1.0, 1.0), y.shape)).astype(dtype)


def slopes(sample: Sample, dtype: str, d_y: Any) -> dict[int, tuple[Any, Any]]:
    """Return the slopes on the left and on the right for each input, by differences in a higher precision.

    Each one-sided difference is extrapolated from two steps. The function must compute in the precision of its inputs.
    """
    base = [x.astype(np.longdouble) if is_float(x) else x for x in sample.at(dtype)]
    weights = d_y.astype(np.longdouble)

    def loss(i: int, index: Any, by: Any) -> Any:
        inputs = copy.deepcopy(base)
        inputs[i][index] += by
        with np.errstate(all="ignore"):
            # Entries are compared before they are summed: a constant part of the value costs no digits.
            return np.asarray(sample.forward(*inputs)).astype(np.longdouble)

    found = {}
    for i in sample.moving:
        sides = np.zeros((2, *base[i].shape), dtype=np.longdouble)
        typical = np.median(np.abs(base[i])) if base[i].size else 1.0
        for index in np.ndindex(base[i].shape):
            here = loss(i, index, 0.0)
            h = sample.step * (max(abs(base[i][index]), typical) or 1.0)
            for side, sign in enumerate((-1, 1)):
                one, two = ((weights * (loss(i, index, sign * n * h) - here)).sum() / (sign * n * h) for n in (1, 2))
                sides[(side, *index)] = 2 * one - two
        found[i] = (sides[0], sides[1])
    return found


def measure(sample: Sample, dtype: str) -> tuple[float, float]:
    """Return how far the gradient lies outside of the slopes, and how far apart the slopes on both sides are.

    Both are relative to the largest entry of an input's gradient, and the largest of all inputs. The first is infinite
    where a gradient is not finite, or does not have the shape of its input.
    """
    d_y = cotangent(sample, dtype)
    with np.errstate(all="ignore"):
        gradients = list(sample.backward(*sample.at(dtype), d_y.copy()))
    error = jump = 0.0
    for i, (left, right) in slopes(sample, dtype, d_y).items():
        gradient = np.zeros(left.shape) if gradients[i] is None else np.asarray(gradients[i])
        if gradient.shape != left.shape or not np.isfinite(gradient).all():
            return np.inf, jump
        low, high = np.minimum(left, right), np.maximum(left, right)
        outside = np.maximum(np.maximum(low - gradient, gradient - high), 0)
        scale = max(float(np.abs(x).max(initial=0)) for x in (low, high, gradient)) or 1.0
        error = max(error, float(outside.max(initial=0)) / scale)
        jump = max(jump, float((high - low).max(initial=0)) / scale)
    return error, jump
