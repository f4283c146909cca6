"""Handles Ctrl-C and SIGTERM between two steps, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C and SIGTERM to the end of a step: half-updated weights are not worth saving.

    `docker stop`, `timeout`, batch systems and some MPI launchers send SIGTERM. Open MPI's kills the processes a
    fraction of a second later, so a checkpoint is saved only if the step ends by then.

    Yields a function that returns whether one of them has arrived since. Then Ctrl-C raises KeyboardInterrupt at once,
    but another SIGTERM changes nothing, because `timeout` sends it twice. Threads other than the main one receive no
    signals; there, nothing changes, nor for a signal that a library in another language handles.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if handler is not None}
    pressed = False

    def restore(*numbers: signal.Signals) -> None:
        for number in numbers:
            signal.signal(number, before[number])

    def remember(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        restore(*before.keys() - {signal.SIGTERM})

    for number in before:
        signal.signal(number, remember)
    try:
        yield lambda: pressed
    finally:
        restore(*before)
