"""What passes between host and device, as it happens, for tests to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

to_host: list[str] = []
"""One entry for each copy from the device, which makes the host wait: the call that made it."""
to_device: list[str] = []
"""One entry for each copy to the device."""
wrapped: list[str] = []
"""One entry for each indexing with an index out of range, which CuPy takes modulo the length without a word."""


@contextmanager
def host_copies() -> Iterator[list[str]]:
    """Collect the copies from the device that are made inside ``with host_copies() as copies:``."""
    before = len(to_host)
    copies: list[str] = []
    try:
        yield copies
    finally:
        copies += to_host[before:]


def clear() -> None:
    """Forget everything."""
    for entries in (to_host, to_device, wrapped):
        entries.clear()
