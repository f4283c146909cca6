"""Replace functions inside a ``with`` block.

Calls look up the passes of an operation, the methods of a class and the functions of a module as attributes, and
``override`` sets an attribute until its block ends::

    with override(ops.softmax, backward=my_backward):
        train()

A function of a module is replaced for callers that look it up in this module, and not where another module has imported
it under a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Lock, get_ident
from typing import Any, NamedTuple


class _Value(NamedTuple):
    """A value of an attribute."""

    value: Any
    thread: int | None = None
    """The only thread that it is for; None for all."""
    restore: Callable[[], object] | None = None
    """For the original value: gives the owner what it had, a static method too, or nothing if it inherits the value."""


AFTER_USE: list[Callable[[bool], object]] = []
"""Functions that are called when the array library in use has been chosen, with whether it has fused CUDA kernels."""
_LOCK = Lock()
_VALUES: dict[tuple[int, str], list[_Value]] = {}
"""The values of each overridden attribute, by the id of its owner and its name: the latest first, the original last."""


def override(owner: Any, **values: Any) -> AbstractContextManager[None]:
    """Replace attributes inside a ``with`` block, in all threads.

    The latest value counts. Blocks of several threads may begin and end in any order.

    Parameters
    ----------
    owner : Operation, Rule, class or module
        What has the attributes.
    **values
        The new values by name. A function takes the arguments of the one that it replaces, and returns the same.
    """
    return _override(owner, {name: _Value(value) for name, value in values.items()})


def override_in_this_thread(owner: Any, **functions: Callable[..., Any]) -> AbstractContextManager[None]:
    """Replace functions as ``override`` does, for the calls of this thread only."""
    thread = get_ident()
    return _override(owner, {name: _Value(function, thread) for name, function in functions.items()})


@contextmanager
def _override(owner: Any, added: dict[str, _Value]) -> Iterator[None]:
    with _LOCK:
        before = {name: [_original(owner, name)] for name in added}
        for name, one in added.items():
            _set(owner, name, [one, *_VALUES.get((id(owner), name), before[name])])
    try:
        yield
    finally:
        with _LOCK:
            for name, one in added.items():
                _set(owner, name, [other for other in _VALUES[id(owner), name] if other is not one])


def install(owner: Any, **values: Any) -> None:
    """Replace attributes for good. What ``override`` has replaced stays so until its block ends."""
    with _LOCK:
        for name, value in values.items():
            _set(owner, name, [*_VALUES.get((id(owner), name), [])[:-1], _Value(value)])


def in_use(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a call of an attribute's value runs in this thread: the value itself, or this thread's override."""
    find = getattr(function, "in_this_thread", None)
    return function if find is None else find()


def _original(owner: Any, name: str) -> _Value:
    own = vars(owner)
    value = getattr(owner, name)  # raises an error if it is unknown
    restore = partial(setattr, owner, name, own[name]) if name in own else partial(delattr, owner, name)
    return _Value(value, restore=restore)


def _set(owner: Any, name: str, values: list[_Value]) -> None:
    _VALUES[id(owner), name] = values
    if len(values) == 1:
        del _VALUES[id(owner), name]
        if values[0].restore is not None:
            values[0].restore()
            return
    setattr(owner, name, values[0].value if values[0].thread is None else _by_thread(values))


def _by_thread(values: list[_Value]) -> Callable[..., Any]:
    """Return a function that calls, of these functions, the latest that is for the thread in which it runs."""

    def find() -> Callable[..., Any]:
        thread = get_ident()
        return next(one.value for one in values if one.thread in (None, thread))

    def call(*args: Any, **options: Any) -> Any:
        return find()(*args, **options)

    vars(call)["in_this_thread"] = find
    return call
