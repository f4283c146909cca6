"""Whether an array changes in place."""

from __future__ import annotations

from minitransformer.arrays.namespace import Array, xp


class Watch:
    """Notices whether an array has changed in place since it was lent to somebody.

    Nothing is done, and nothing is copied, before the array is lent; whoever has it may write into it.
    """

    __slots__ = ("_array", "_copy")

    def __init__(self, array: Array) -> None:
        self._array = array
        self._copy: Array | None = None

    def lend(self) -> None:
        """Remember the values as they are now."""
        if self._copy is None:
            self._copy = self._array.copy()

    def has_changed(self) -> bool:
        """Tell whether the values are others than when the array was first lent."""
        return self._copy is not None and not xp.array_equal(self._array, self._copy, equal_nan=True)
