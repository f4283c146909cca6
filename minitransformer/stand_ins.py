"""Replaceable functions and their stand-ins.

On a GPU a CUDA kernel replaces a pass of an operation. When learners train the model with their own solutions, these
replace the engine's functions. A stand-in takes the same arguments and returns the same values::

    stand_in(softmax.forward, fused_forward, when=uses_kernels)  # for good
    with standing_in({softmax.backward: my_backward}):           # for a while
        train()

Of several stand-ins whose conditions hold, the latest is called.

Stand-ins may be in a package above that of the function. That package passes a loader to ``load_later``, and the
package of the function calls ``load`` once its functions are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from threading import Lock, get_ident
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[[], bool]
StandIn = tuple[Callable[..., Any], Condition]
_CHANGING = Lock()
_LATER: list[Callable[[], Any]] = []


def _always() -> bool:
    return True


def in_this_thread() -> Condition:
    """Return the condition that holds in the thread that has called this function."""
    thread = get_ident()
    return lambda: get_ident() == thread


def replaceable(function: F) -> F:
    """Return the function in a form that another may replace."""
    others: list[tuple[StandIn, ...]] = [()]  # the latest first

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for other, when in others[0]:  # a decoding step makes many calls: in_use would be noticeable
            if when():
                return other(*args, **options)
        return function(*args, **options)

    vars(call)["stand_ins"] = others
    return cast(F, call)


def in_use(function: F) -> F:
    """Return the current form of a replaceable function: the latest stand-in whose condition holds, or itself."""
    for other, when in vars(function)["stand_ins"][0]:
        if when():
            return cast(F, other)
    return reference(function)


def reference(function: F) -> F:
    """Return a replaceable function as it was written: the reference implementation."""
    return cast(F, vars(function)["__wrapped__"])


def written_in(function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return the functions that do the work of a stand-in: those in its attribute ``calls``, or itself."""
    return tuple(getattr(function, "calls", ())) or (function,)


def load_later(loader: Callable[[], Any]) -> None:
    """Let the next ``load`` call a function that loads stand-ins."""
    _LATER.append(loader)


def load() -> None:
    """Call the functions given to ``load_later``."""
    while _LATER:
        _LATER.pop()()


def stand_in(function: Callable[..., Any], other: Callable[..., Any], when: Condition = _always) -> None:
    """Replace a function by another, whenever a condition holds."""
    _add(function, (other, when))


@contextmanager
def standing_in(others: Mapping[Callable[..., Any], Callable[..., Any]], when: Condition = _always) -> Iterator[None]:
    """Replace functions by others inside a ``with`` block, whenever a condition holds.

    Blocks of several threads may begin and end in any order.
    """
    added = [(function, (other, when)) for function, other in others.items()]
    try:
        for function, one in added:
            _add(function, one)
        yield
    finally:
        for function, one in added:
            _remove(function, one)


def _add(function: Callable[..., Any], one: StandIn) -> None:
    others = vars(function)["stand_ins"]
    with _CHANGING:
        others[0] = (one, *others[0])


def _remove(function: Callable[..., Any], one: StandIn) -> None:
    others = vars(function)["stand_ins"]
    with _CHANGING:
        others[0] = tuple(other for other in others[0] if other is not one)
