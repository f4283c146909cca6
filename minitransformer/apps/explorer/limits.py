"""Limits of memory and time: a store that drops the least recently used entries, and a time limit for computations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeVar

from minitransformer import ops
from minitransformer.override import override_in_this_thread

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values used last, with a maximum number and total size; the newest is always kept.

    Several threads may use it.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return a value and note its use; None if it is not there."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: K, value: V, size: int) -> V:
        """Keep a value with its size in bytes; return it."""
        with self._lock:
            self._kept[key] = (value, size)
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (
                len(self._kept) > self.most or sum(size for _, size in self._kept.values()) > self.most_bytes
            ):
                self._kept.popitem(last=False)
        return value


class TimeLimitError(Exception):
    """A computation took too long and was stopped."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop what runs the model inside the ``with`` block once the time is over.

    The time is looked at whenever the model normalises features, as each of its layers does.

    Raises
    ------
    TimeLimitError
        If the time is over.
    """
    end = monotonic() + seconds

    def in_time(forward: Callable[..., Any]) -> Callable[..., Any]:
        def forward_in_time(*arrays: Any, **options: Any) -> Any:
            if monotonic() > end:
                raise TimeLimitError(f"it took more than {seconds:g} seconds and was stopped")
            return forward(*arrays, **options)

        return forward_in_time

    with ExitStack() as stack:
        for norm in (ops.layer_norm, ops.rms_norm):
            stack.enter_context(override_in_this_thread(norm, forward=in_time(norm.forward)))
        yield
