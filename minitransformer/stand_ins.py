"""Functions for which another function may stand in.

On a GPU a CUDA kernel stands in for a pass of an operation. When learners train the model with their own solutions,
these stand in for the engine's functions. A stand-in takes the same arguments and returns the same values::

    stand_in(softmax.forward, fused_forward, when=uses_kernels)  # for good
    with standing_in({softmax.backward: my_backward}):           # for a while
        train()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["in_use", "reference", "replaceable", "stand_in", "standing_in"]

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[[], bool]


def _always() -> bool:
    return True


def replaceable(function: F) -> F:
    """Return the function, made so that another may stand in for it."""
    slot: list[tuple[Callable[..., Any], Condition] | None] = [None]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        other = slot[0]  # a step of decoding makes so many calls that a slower way would be noticeable
        if other is None or not other[1]():
            return function(*args, **options)
        return other[0](*args, **options)

    vars(call)["stand_in"] = slot
    return cast(F, call)


def in_use(function: F) -> F:
    """Return what a replaceable function is at present: its stand-in, if there is one and its condition holds."""
    [other] = vars(function)["stand_in"]
    return cast(F, other[0] if other is not None and other[1]() else vars(function)["__wrapped__"])


def reference(function: F) -> F:
    """Return a replaceable function as it was written: the reference implementation."""
    return cast(F, vars(function)["__wrapped__"])


def stand_in(function: Callable[..., Any], other: Callable[..., Any], when: Condition = _always) -> None:
    """Let another function stand in for a replaceable one, whenever a condition holds."""
    vars(function)["stand_in"][0] = (other, when)


@contextmanager
def standing_in(others: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Let functions stand in for replaceable ones inside a ``with`` block."""
    before = {function: vars(function)["stand_in"][0] for function in others}
    try:
        for function, other in others.items():
            stand_in(function, other)
        yield
    finally:
        for function, earlier in before.items():
            vars(function)["stand_in"][0] = earlier
