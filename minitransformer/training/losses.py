"""The losses of the last steps, read from the device together."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minitransformer.arrays import Array, to_numpy, xp
from minitransformer.decoding import Diverged


class Losses:
    """The losses since the last line of the log.

    Parameters
    ----------
    read : iterable of float
        Those that are known.
    """

    def __init__(self, read: Iterable[float] = ()) -> None:
        self._read = list(read)
        self._unread: list[Array] = []  # may still be on the device

    def append(self, loss: Array) -> None:
        """Add the loss of a step; on a GPU the host does not wait for it."""
        self._unread.append(loss)

    def read(self, step: int) -> list[float]:
        """Copy the losses up to a step to the host, and return all.

        Raises
        ------
        Diverged
            If one is NaN or infinite.
        """
        if self._unread:
            first = step - len(self._unread) + 1
            losses, self._unread = to_numpy(xp.stack(self._unread)).tolist(), []
            for number, loss in enumerate(losses, first):
                if not math.isfinite(loss):
                    raise Diverged(f"the loss is {loss} at step {number}")
            self._read += losses
        return self._read
