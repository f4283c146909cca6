"""Ctrl-C between two steps instead of within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt(several: bool = False) -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C to the end of a step: half-updated weights are not worth saving.

    Yields a function that returns whether Ctrl-C has been pressed since. A second Ctrl-C raises KeyboardInterrupt at
    once. Threads other than the main one receive no signals; there, nothing changes.

    Parameters
    ----------
    several : bool
        Whether a launcher started several processes. Some launchers send SIGTERM on Ctrl-C. Open MPI's kills the
        processes a fraction of a second later, so a checkpoint is saved only if the step ends by then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    numbers = (signal.SIGINT, signal.SIGTERM) if several else (signal.SIGINT,)
    before = {number: signal.getsignal(number) for number in numbers}
    pressed = False

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        restore()

    for number in numbers:
        signal.signal(number, remember)
    try:
        yield lambda: pressed
    finally:
        restore()
