"""Ctrl-C between two steps instead of within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Put off Ctrl-C until it is convenient: weights that are half updated are not worth saving.

    Yields a function that tells whether Ctrl-C has been pressed since. A second Ctrl-C is not put off: it raises
    KeyboardInterrupt wherever it happens. In threads other than the main one, which receive no signals, nothing is
    changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)
    pressed = False

    def remember(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
