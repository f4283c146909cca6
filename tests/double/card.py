"""The GPU itself, as far as a report asks for it; nothing is ever still under way on it."""

from __future__ import annotations

from typing import Any


class Device:
    """The one GPU."""

    id = 0
    waits = 0
    """How often it was waited for."""

    def synchronize(self) -> None:
        Device.waits += 1


class MemoryPool:
    """A pool that says the same however much is used."""

    def total_bytes(self) -> int:
        return 123_000_000

    def used_bytes(self) -> int:
        return 100_000_000

    def free_all_blocks(self) -> None:
        pass


class runtime:
    """What CUDA knows about itself."""

    @staticmethod
    def getDeviceProperties(device: int) -> dict[str, Any]:
        return {"name": b"a double", "totalGlobalMem": 8 * 10**9}

    @staticmethod
    def runtimeGetVersion() -> int:
        return 13020

    @staticmethod
    def driverGetVersion() -> int:
        return 13000
