"""The GPUs themselves, as far as a report asks for them; nothing is ever still under way on them."""

from __future__ import annotations

from typing import Any

COUNT = 2


class Device:
    """One of two GPUs; by default the one in use."""

    in_use = 0
    waits = 0
    """How often one was waited for."""

    def __init__(self, device: int | None = None) -> None:
        self.id = Device.in_use if device is None else device

    def use(self) -> None:
        if not 0 <= self.id < COUNT:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        Device.in_use = self.id

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
        return {"name": b"a fake GPU", "totalGlobalMem": 8 * 10**9}

    @staticmethod
    def getDeviceCount() -> int:
        return COUNT

    @staticmethod
    def runtimeGetVersion() -> int:
        return 13020

    @staticmethod
    def driverGetVersion() -> int:
        return 13000
