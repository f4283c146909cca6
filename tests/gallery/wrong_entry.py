"""What an entry of the gallery of wrong gradients consists of, and the weak test that it may get past."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer import Operation, Tensor, ops
from minitransformer.testing import gradcheck, prove
from minitransformer.testing.examples import Example, examples

DIFFERS = r"the gradient is WRONG|the gradient of \w+ is nan at"
LEAST = -1e12  # stands for the -inf of a mask, which is a constant
VALUE = "the value written by hand differs from the reference implementation"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the gallery says about a mistake: an entry of cards.toml, which explains the fields."""

    wrong: str
    right: str
    caught: str
    says: str = ""
    missed: str = ""
    met: str = ""
    exercise: str = ""
    effect: str = ""


CARDS = {
    name: Card(**fields)
    for name, fields in tomllib.loads(Path(__file__).with_name("cards.toml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True, kw_only=True)
class Weak:
    """A weak test that accepts the mistake. What is left out is as in the entry."""

    wrong: Callable[..., Tensor] | None = None
    right: Callable[..., Tensor] | None = None
    example: Example | None = None
    cotangent: str = "ones"
    """``"ones"``: the loss is ``y.sum()``. ``"one-hot"``: it is one entry of each row. ``"random"``."""
    absolute: float = 1e-6
    """How far a gradient may be off, however small it is."""
    numbers: bool = True
    """Whether numbers are compared, or shapes alone."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A mistake."""

    name: str
    operation: str
    wrong: Callable[..., Tensor]
    """An operation, or a function of tensors."""
    right: Callable[..., Tensor]
    example: Example
    message: str = DIFFERS
    """What the checker's message must contain."""
    mistake: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Makes the mistake where it is not in ``wrong``: in the core."""
    weak: Weak

    @property
    def card(self) -> Card:
        """What the gallery says about it."""
        return CARDS[self.name]


def example(operation: str, case: str) -> Example:
    """Return an example of the public list by its name."""
    return {e.case: e for e in examples(ops.registry[operation])}[case]


def normal(*shape: int, seed: int = 8) -> Any:
    """Return random numbers; two calls with one shape return the same."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def case(*inputs: Any, **options: Any) -> Example:
    """Return an example of one's own."""
    return Example(inputs, options)


def check(subject: Callable[..., Tensor], at: Example) -> None:
    """Point the public checker at an operation, or at a function of tensors."""
    checker = prove if isinstance(subject, Operation) else gradcheck
    checker(subject, at.inputs, **at.options)


def simple_test(
    function: Callable[..., Tensor],
    at: Example,
    *,
    cotangent: str = "random",
    absolute: float = 0.0,
    relative: float = 0.0,
    numbers: bool = True,
) -> None:
    """Test a gradient as many projects do: one step, one tolerance for all entries."""

    def call(moved: int | None = None, index: Any = (), by: float = 0.0) -> tuple[Any, list[Any]]:
        given = [copy.deepcopy(x) for x in at.inputs]
        if moved is not None:
            given[moved][index] += by
        given = [Tensor(x, requires_grad=True) if is_float(x) else x for x in given]
        return function(*given, **at.options), given

    y, given = call()
    d_y = np.ones(y.shape)
    if cotangent == "random":
        d_y = np.random.default_rng(5).standard_normal(y.shape)
    elif cotangent == "one-hot":
        d_y[..., 1:] = 0
    y.backward(d_y)
    for i, x in enumerate(at.inputs):
        if not is_float(x):
            continue
        gradient = np.zeros(x.shape) if given[i].grad is None else given[i].grad
        assert gradient.shape == x.shape
        if not numbers:
            continue
        h = 3e-4
        slopes = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            high, low = (np.maximum(call(i, index, by)[0].numpy(), LEAST) for by in (h, -h))
            slopes[index] = (d_y * (high - low)).sum() / (2 * h)
        allowed = absolute + relative * np.abs(slopes).max(initial=0.0)
        assert np.all(np.abs(gradient - slopes) <= allowed), "the gradient is wrong"


def is_float(x: Any) -> bool:
    """Tell whether an input has a gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
